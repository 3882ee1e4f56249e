"""The life of a step: reserve, propose, judge, complete. Every task may run twice or never end; no step is lost.

A task claims its node by a conditional UPDATE, works without a transaction, and writes its result only while it still
holds the node. Each returns what the caller is to enqueue; a lost race returns nothing.
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, action_done
from adaexplore_site.core.text import clip, storable_text
from adaexplore_site.core.text import escaped as storable
from judge.bench.processes.stopping import stoppable
from judge.bench.runner import Bench
from judge.devices.models import Device
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation
from judge.evaluations.services import candidate_compile, evaluation_known, evaluation_run, wants_audit
from judge.problems.models import Problem
from judge.values import JudgeError, Stopped, Verdict, canonical_hash
from judge.values.owners import owner_name
from memory.prompting.places import toolchain_now
from memory.prompting.queries import frozen_of, shown_to, uses_record
from search.algorithm.decide import Decision, decide, node_rng
from search.algorithm.params import SearchParams
from search.engine.bars import bar_of, wants_race
from search.engine.budgets import Room, run_room
from search.engine.completion import node_complete, run_follow, run_locked
from search.engine.devices import device_faulted, device_judged
from search.engine.leases import (
    PERSON,
    QUEUE_S,
    QUEUED,
    RETRY,
    judge_fault,
    lease_held,
    lease_kept,
    node_claim,
    proposer_fault,
)
from search.engine.problems import problem_judged
from search.engine.sketches import sketch
from search.engine.spending import proposals_record, stopped_add
from search.ledger.limits import Amounts
from search.proposers import get as get_proposer
from search.proposers.exchange import parse_reply
from search.proposers.protocol import Call, ContextKernel, Proposer, ProposerError, Reply, Task, WaitingForPerson
from search.records.events import NodeJudging, NodeProposed, NodeReserved, NodeWaiting
from search.records.facts import node_rows, tree_of, verdict_of
from search.records.kinds import action_record
from search.records.log import event_write, notes_of, steering_of
from search.records.models import Node, Proposal, Run
from search.records.queries import best_node
from search.records.queue import FollowUp

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

    from search.records.facts import NodeRow


def task_of(node: Node) -> Task:
    """The task of a reserved node. Reads its parent and context nodes; the same node gives the same task, until one of
    these is marked."""
    run = node.run
    report = run.problem.report_for(run.device.name) or {}
    base = node.parent.source if node.kind == Node.Kind.SMALL and node.parent else None
    return Task(
        kind=node.kind,
        problem_title=run.problem.title,
        problem_source=run.problem.source,
        graph=report.get("graph"),
        device=device_facts(run.device, toolchain=toolchain_now(run.problem, run.device), case=report.get("case")),
        context_kernels=context_kernels(run, node.context),
        seed=node_seed(run.seed, node.number),
        number=node.number,
        base=base,
        notes=notes_of(node),
        rules=shown_to(node.pk),
        options=run.proposer_options,
        gradients=run.problem.gradients,
    )


def node_seed(seed: int, number: int) -> int:
    """63 bits that depend only on the run's seed and the node's number."""
    digest = hashlib.sha256(f"{seed}:{number}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def context_kernels(run: Run, numbers: list[int]) -> tuple[ContextKernel, ...]:
    """The context kernels in the order of the decision, each with its verdict as text."""
    nodes = Node.objects.filter(run=run, number__in=numbers).select_related("evaluation")
    by_number = {node.number: node for node in nodes.defer("evaluation__source", "evaluation__report")}
    return tuple(_context_kernel(by_number[number]) for number in numbers if number in by_number)


def _context_kernel(node: Node) -> ContextKernel:
    """What is in doubt when the prompt is written is shown without its speedup, and not as a pass."""
    found = node.evaluation
    if found is not None and found.doubt:
        message = f"{found.get_doubt_display()}: {found.doubt_reason}"
        return ContextKernel(number=node.number, source=node.source, verdict=Verdict.SUSPECT.value, message=message)
    measure = Measure.of(found)
    return ContextKernel(
        number=node.number,
        source=node.source,
        verdict=verdict_of(found.verdict if found else None, node.kind, node.reason),
        message=found.message if found else node.message,
        speedup=found.speedup if found else None,
        basis=found.basis if found else "",
        evidence="; ".join(part for part in (measure.evidence, *measure.beside) if part) if measure else "",
    )


def device_facts(device: Device, *, toolchain: str, case: str | None) -> dict[str, Any]:
    """Plain facts for a prompt: what the device is, the versions that judge there now, the case that is timed."""
    facts = {name: value for name, value in device.facts.items() if isinstance(value, str | int | float)}
    return {
        **facts,
        "name": device.name,
        "kind": device.kind,
        "title": device.title,
        "arch": device.arch,
        "toolchain": toolchain,
        "case": case,
    }


UNCHANGED = "proposal.unchanged"
UNCHANGED_MESSAGE = "The reply leaves the kernel as it is; nothing to judge."


def reply_take(*, node: Node, owner: str, reply: Reply, now: datetime) -> list[FollowUp] | None:
    """Store a reply of the node's holder: on to the judge, or completed at once when it holds no new kernel.

    None when `owner` no longer holds the node.
    """
    reason, message = reply.reason, reply.message
    source = storable_text(reply.source)
    source_hash = canonical_hash(source) if source else ""
    drawn = sketch(source)
    if source_hash and node.kind == Node.Kind.SMALL and node.parent and source_hash == node.parent.source_hash:
        reason, message = UNCHANGED, UNCHANGED_MESSAGE
    with transaction.atomic():
        run = run_locked(node.run_id)
        held = Node.objects.filter(pk=node.pk, state=Node.State.PROPOSING, lease_owner=owner)
        written = {"source": source, "source_hash": source_hash, "summary": clip(reply.summary, 200), "sketch": drawn}
        if run is None or not held.update(**written):
            return None
        proposals_record(node=node, proposer=run.proposer, calls=reply.calls)
        if reason:
            return node_complete(
                run=run, node=node, owner=owner, now=now, reason=clip(reason, 60), message=clip(message, 4000)
            )
        held.renew(now=now, for_s=QUEUE_S, state=Node.State.JUDGING, lease_owner=QUEUED, attempts=0)
        proposed = NodeProposed(number=node.number, source_hash=source_hash, summary=str(written["summary"]))
        event_write(run=run, event=proposed)
        return [FollowUp("judge_node", node.pk, queue=run.device.queue)]


def reply_submit(*, node: Node, text: str, user: AbstractBaseUser | None, key: str | None = None) -> list[FollowUp]:
    """Take the reply a person wrote for a waiting node. The caller sends the follow-up tasks.

    The same `key` again does nothing. Raises ActionRefused, changing nothing, when the node no longer waits or the
    text holds no usable kernel: the message says what is expected.
    """
    if action_done(key=key, verb="node.reply"):
        return []
    node = Node.objects.select_related("run__problem", "run__device", "parent").get(pk=node.pk)
    reply = parse_reply(task_of(node), text)
    if reply.reason:
        raise ActionRefused(reply.message)
    with transaction.atomic():
        run = run_locked(node.run_id)
        if action_done(key=key, verb="node.reply"):
            return []
        call = Call(reply=storable(text), model=Proposal.PERSON)
        follow_ups = reply_take(node=node, owner=PERSON, reply=replace(reply, calls=(call,)), now=timezone.now())
        if run is None or follow_ups is None:
            raise ActionRefused(_("Node %(number)s no longer waits for a reply.") % {"number": node.number})
        Node.objects.filter(pk=node.pk).update(touched=True)
        action_record(verb="node.reply", run=run, user=user, key=key, after={"number": node.number})
        return follow_ups


DUPLICATE_WAIT_S = 2.0


def duplicate_in_flight(*, node: Node, run: Run, now: datetime) -> bool:
    """Whether a living worker judges an equal kernel on the same problem and device, in whatever search.

    In the caller's transaction: the problem's row is locked until commit, so that of two equal kernels claimed at the
    same moment the second sees the first. A dead worker's claim runs out, and the second goes on.
    """
    Problem.objects.select_for_update(no_key=True).filter(pk=run.problem_id).values_list("pk").first()
    equal = Node.objects.filter(source_hash=node.source_hash, state=Node.State.JUDGING).on_workers(now)
    equal = equal.filter(run__problem=run.problem_id, run__device=run.device_id).exclude(pk=node.pk)
    return bool(node.source_hash) and equal.exists()


def duplicate_wait(*, node: Node, run: Run, now: datetime) -> list[FollowUp]:
    """Try a free node again in a moment; no attempt is used up. Nothing when a worker holds the node."""
    free = Node.objects.filter(pk=node.pk, state=Node.State.JUDGING, lease_owner__in=(QUEUED, RETRY))
    if not free.renew(now=now, for_s=DUPLICATE_WAIT_S + QUEUE_S, lease_owner=RETRY):
        return []
    return [FollowUp("judge_node", node.pk, queue=run.device.queue, delay_s=DUPLICATE_WAIT_S)]


__all__ = ["reply_submit", "step_complete", "step_judge", "step_propose", "step_reserve"]

Clock = Callable[[], datetime]


def step_reserve(*, run_id: int, clock: Clock = timezone.now) -> list[FollowUp]:
    """Fill the run's free places with new nodes, or end it when its budget is used up and nothing is in flight."""
    follow_ups: list[FollowUp] = []
    with transaction.atomic():
        run = run_locked(run_id)
        if run is None or run.state != Run.State.RUNNING:
            return []
        rows = node_rows(run_id)
        in_flight = sum(row.state in Node.IN_FLIGHT for row in rows)
        room = run_room(run=run, in_flight=in_flight, now=clock())
        if room.count:
            nodes = _reserve(run, rows, room, clock())
            follow_ups = [FollowUp("propose", node.pk) for node in nodes]
        else:
            run_follow(run=run, now=clock())
    return follow_ups


def _reserve(run: Run, rows: list[NodeRow], room: Room, now: datetime) -> list[Node]:
    """Decide and write nodes with their budget. A large tree is replayed once; each reservation weighs on the next."""
    steering = steering_of(run.pk)
    params = steering.params(SearchParams.of_run(run.params))
    tree, touched = tree_of(rows, params), {row.number for row in rows if row.touched}
    ids = {row.number: row.id for row in rows}
    nodes = []
    for number in range(rows[-1].number + 1, rows[-1].number + 1 + room.count):
        decision = decide(tree, params, node_rng(run.seed, number), steering)
        tree.reserve(number, decision.parent, decision.kind)
        steering = steering.used(number, decision.uses)
        inherited = not touched.isdisjoint((decision.parent, *decision.context))
        node = _reserve_one(run, number, ids[decision.parent], decision, room.hold, now, inherited=inherited)
        nodes.append(node)
        if node.touched:
            touched.add(number)
    uses_record(frozen=frozen_of(run.pk), seed=run.seed, nodes=[(node.pk, node.number) for node in nodes])
    return nodes


def _reserve_one(
    run: Run, number: int, parent_id: int, decision: Decision, hold: Amounts, now: datetime, *, inherited: bool
) -> Node:
    node = Node.objects.create(
        run=run,
        number=number,
        parent_id=parent_id,
        kind=decision.kind,
        context=list(decision.context),
        why=decision.why,
        held=hold.to_json(),
        steered=decision.steered,
        touched=bool(decision.steered) or inherited,
        lease_owner=QUEUED,
        lease_until=now + timedelta(seconds=QUEUE_S),
    )
    reserved = NodeReserved(
        number=number,
        parent=decision.parent,
        kind=decision.kind,
        context=node.context,
        steered=decision.steered or None,
    )
    event_write(run=run, event=reserved)
    return node


def step_propose(
    *, node_id: int, proposer_for: Callable[[str], Proposer] = get_proposer, clock: Clock = timezone.now
) -> list[FollowUp]:
    """Call the run's proposer for a reserved node and store what came of it."""
    owner = owner_name()
    if not node_claim(node_id=node_id, state=Node.State.PROPOSING, owner=owner, now=clock()):
        return []
    node = Node.objects.select_related("run__problem", "run__device", "parent").get(pk=node_id)
    try:
        with lease_kept(node_id=node_id, owner=owner):
            reply = proposer_for(node.run.proposer).propose(task_of(node))
    except WaitingForPerson as waiting:
        return _wait_for_person(node, owner, waiting)
    except ProposerError as error:
        return proposer_fault(node=node, owner=owner, error=error, now=clock())
    return reply_take(node=node, owner=owner, reply=reply, now=clock()) or []


def _wait_for_person(node: Node, owner: str, waiting: WaitingForPerson) -> list[FollowUp]:
    """Leave the node on the page without a lease, its prompt recorded."""
    with transaction.atomic():
        run = run_locked(node.run_id)
        held = Node.objects.filter(pk=node.pk, state=Node.State.PROPOSING, lease_owner=owner)
        if run is not None and held.update(lease_owner=PERSON, lease_until=None, attempts=0):
            proposals_record(node=node, proposer=run.proposer, calls=(waiting.call,))
            event_write(run=run, event=NodeWaiting(number=node.number))
    return []


def step_judge(*, node_id: int, bench_for: Callable[[Device], Bench], clock: Clock = timezone.now) -> list[FollowUp]:
    """Judge a node's kernel on the run's device and complete the node. An equal candidate takes the known verdict. On a
    device of another machine the node waits for an outcome.
    """
    if Node.objects.filter(pk=node_id, run__device__remote=True).exists():
        return step_judge_elsewhere(node_id=node_id, clock=clock)
    owner, began = owner_name(), clock()
    node, follow_ups = _claim_for_judging(node_id, owner, began)
    if node is None:
        return follow_ups
    problem, device = node.run.problem, node.run.device
    try:
        with lease_kept(node_id=node_id, owner=owner), stoppable(lambda: not lease_held(node_id=node_id, owner=owner)):
            bench = bench_for(device)
            beat, incumbent = bar_of(node.run_id)
            evaluation, known = evaluation_run(
                problem=problem,
                device=device,
                source=node.source,
                bench=bench,
                beat=beat,
                incumbent=incumbent or None,
            )
    except Stopped:
        _stopped(node, (clock() - began).total_seconds(), clock())
        return []  # withdrawn, queued again or taken over: whoever did it has said what goes on
    except JudgeError as error:
        device_faulted(device=device, message=str(error))
        return judge_fault(node=node, owner=owner, error=error, now=clock())
    if not known:
        device_judged(evaluation=evaluation, bench=bench)
        problem_judged(evaluation=evaluation)
    reused = known and evaluation.nodes.exclude(pk=node.pk).exists()  # not after a crash between verdict and tell
    return step_complete(node=node, owner=owner, evaluation_id=evaluation.pk, reused=reused, clock=clock)


def _stopped(node: Node, device_s: float, now: datetime) -> None:
    """The device was taken all the same."""
    with transaction.atomic():
        if run_locked(node.run_id) is not None:
            stopped_add(node=node, device_ms=device_s * 1e3, now=now)


def step_judge_elsewhere(*, node_id: int, clock: Clock = timezone.now) -> list[FollowUp]:
    """Complete a node on a device of another machine if an equal candidate has a verdict there, with the versions that
    judge there now. Otherwise it leaves as a job, and the outcome completes it.
    """
    node = Node.objects.select_related("run__problem", "run__device").filter(pk=node_id).first()
    if node is None or node.state != Node.State.JUDGING or node.run.device.state == Device.State.QUARANTINED:
        return []
    problem, device = node.run.problem, node.run.device
    toolchain, beat = toolchain_now(problem, device), bar_of(node.run_id)[0]
    known = evaluation_known(problem=problem, device=device, candidate_hash=node.source_hash, toolchain=toolchain)
    owner = owner_name()
    if known is None or wants_audit(known, beat) or wants_race(known, best_node(node.run_id)):
        return []
    if not node_claim(node_id=node_id, state=Node.State.JUDGING, owner=owner, now=clock()):
        return []
    reused = known.nodes.exclude(pk=node.pk).exists()
    return step_complete(node=node, owner=owner, evaluation_id=known.pk, reused=reused, clock=clock)


def _claim_for_judging(node_id: int, owner: str, now: datetime) -> tuple[Node | None, list[FollowUp]]:
    """The node, or what to do instead: come back later while an equal kernel is on the device."""
    with transaction.atomic():
        node = Node.objects.select_related("run__problem", "run__device").filter(pk=node_id).first()
        run = run_locked(node.run_id) if node is not None else None
        if node is None or run is None or _quarantined(node.run):
            return None, []  # the reaper asks again; what is quarantined is not judged
        if duplicate_in_flight(node=node, run=node.run, now=now):
            return None, duplicate_wait(node=node, run=node.run, now=now)
        if not node_claim(node_id=node_id, state=Node.State.JUDGING, owner=owner, now=now):
            return None, []
        event_write(run=run, event=NodeJudging(number=node.number, device=node.run.device.name))
    return Node.objects.select_related("run__problem", "run__device").get(pk=node_id), []


def _quarantined(run: Run) -> bool:
    return run.device.state == Device.State.QUARANTINED or run.problem.quarantined


def step_complete(
    *, node: Node, owner: str, evaluation_id: int, reused: bool = False, clock: Clock = timezone.now
) -> list[FollowUp]:
    """Complete a judged node. Doing so twice, or by a worker that lost its lease, changes nothing."""
    with transaction.atomic():
        run = run_locked(node.run_id)
        if run is None:
            return []
        evaluation = Evaluation.objects.get(pk=evaluation_id)
        follow_ups = node_complete(run=run, node=node, owner=owner, now=clock(), evaluation=evaluation, reused=reused)
    return follow_ups or []


log = logging.getLogger(__name__)


def step_compile(*, node_id: int, bench_for: Callable[[Device], Bench]) -> None:
    """Compile the node's kernel before its turn comes. Claims nothing and changes no row: the judge finds the code,
    waits for it, or compiles by itself."""
    waiting = Node.objects.filter(pk=node_id, state=Node.State.JUDGING, lease_owner=QUEUED)
    node = waiting.select_related("run__problem", "run__device").first()
    if node is None or not node.run.device.measures or node.run.problem.quarantined:
        return
    device = node.run.device
    try:
        candidate_compile(problem=node.run.problem, device=device, source=node.source, bench=bench_for(device))
    except JudgeError as error:
        log.warning("node %s was not compiled ahead: %s", node_id, error)
