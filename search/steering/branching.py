"""A new search that begins with a kernel of another one: its node 1, with the verdict it has where that still holds."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done
from adaexplore_site.core.text import clip
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.values import PROTOCOL, UNCACHED, Verdict
from search.algorithm.params import SearchParams
from search.algorithm.tree import LARGE
from search.engine.completion import node_complete, run_locked
from search.engine.leases import QUEUE_S, QUEUED
from search.records.events import NodeProposed, NodeReserved, RunBranched
from search.records.kinds import action_record
from search.records.log import event_write, steering_of
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.runs.services import run_start

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

VERB = "run.branch"
GOALS = ("stale_steps", "target_speedup", "roofline_share")
BILLED = ("tokens", "usd", "step_tokens", "step_usd")


def run_branch(
    *,
    node: Node,
    steps: int,
    user: AbstractBaseUser | None,
    device: Device | None = None,
    proposer: str = "",
    seed: int | None = None,
    key: str | None = None,
) -> tuple[Run, list[FollowUp]]:
    """Start a search on the node's problem with its kernel as node 1, and `steps` steps of its own after that.

    Parameters are those in force in the first search, and so are its hard limits, counted anew, and its rules out of
    memory. The verdict is taken over when the device is the same, else the kernel is judged first. The same key gives
    the first branch again. Raises ActionRefused with what to change.
    """
    with transaction.atomic():
        run = run_locked(node.run_id)
        if run is None:
            raise ActionRefused("This search no longer exists.")
        done = action_done(key=key, verb=VERB)
        if done is not None:
            return Run.objects.get(pk=done.after["run"]), []
        node = Node.objects.select_related("evaluation").get(pk=node.pk)
        _check(node, steps)
        new = run_start(
            problem=run.problem,
            device=device or run.device,
            proposer=proposer or run.proposer,
            steps=steps + 1,
            seed=seed,
            params=steering_of(run.pk).params(SearchParams.of_run(run.params)).to_json(),
            options=run.proposer_options,
            limits=_limits(run, proposer or run.proposer),
            user=user,
            title=clip(f"{run.title or run.problem.title}, from node {node.number} of #{run.pk}", 160),
            concurrency=run.concurrency,
            memory_of=run.pk,
        )
        Run.objects.filter(pk=new.pk).update(branched_from=node)
        branched = RunBranched(number=node.number, run=new.pk)
        event_write(run=run, event=branched, actor=user)
        action_record(verb=VERB, run=run, user=user, key=key, after=branched.to_json())
        return new, _first_node(new, node)


def _limits(run: Run, proposer: str) -> dict[str, Any]:
    """Hard limits of the first search that mean something for this proposer; its goals may be behind the kernel."""
    billed = () if proposer == run.proposer else BILLED
    return {name: value for name, value in run.limits.items() if name not in (*GOALS, *billed)}


def _check(node: Node, steps: int) -> None:
    if steps < 1:
        raise ActionRefused(f"A branch takes at least one step of its own, not {steps}.")
    if node.kind == Node.Kind.ROOT:
        raise ActionRefused("The start holds no kernel to branch from. Start a new search on the problem instead.")
    if node.state != Node.State.COMPLETED or not node.source:
        raise ActionRefused(f"Node {node.number} has no kernel with a verdict. Branch from another node, or wait.")


def _first_node(run: Run, origin: Node) -> list[FollowUp]:
    """Node 1 of `run` with the kernel of `origin`: told at once, or sent to the judge."""
    now = timezone.now()
    node = Node.objects.create(
        run=run,
        number=1,
        parent=run.nodes.get(number=0),
        kind=LARGE,
        state=Node.State.JUDGING,
        source=origin.source,
        source_hash=origin.source_hash,
        sketch=origin.sketch,
        summary=clip(f"from node {origin.number} of search {origin.run_id}", 200),
        touched=True,
        lease_owner=QUEUED,
        lease_until=now + timedelta(seconds=QUEUE_S),
    )
    event_write(run=run, event=NodeReserved(number=1, parent=0, kind=LARGE, context=[], by_hand=True))
    event_write(run=run, event=NodeProposed(number=1, source_hash=node.source_hash, summary=node.summary))
    if _still_holds(origin.evaluation, run.device_id):
        return node_complete(run=run, node=node, owner=QUEUED, now=now, evaluation=origin.evaluation, reused=True) or []
    return [FollowUp("judge_node", node.pk, queue=run.device.queue)]


def _still_holds(evaluation: Evaluation | None, device_id: int) -> bool:
    """Whether a verdict can be taken over as it is: same device and protocol, and a pass was audited."""
    if evaluation is None or evaluation.device_id != device_id or evaluation.protocol != PROTOCOL:
        return False
    if evaluation.verdict in {verdict.value for verdict in UNCACHED}:
        return False
    return evaluation.verdict != Verdict.PASS.value or evaluation.may_be_best
