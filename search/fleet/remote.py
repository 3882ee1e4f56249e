"""Searches on devices of other machines: what leaves as jobs, and what an outcome means for a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from judge.batch.lines import candidate_hash
from judge.batch.models import BatchJob
from judge.batch.services import Lost, Request
from judge.devices.models import Device
from judge.devices.services import faults_clear
from judge.evaluations.models import Evaluation
from judge.problems.admission import admission_fail
from judge.problems.models import Problem
from judge.problems.preflight import preflights_unfinished
from judge.values import Verdict
from judge.values.outcomes import UNCLEAR
from judge.values.owners import owner_name
from search.engine.bars import Bar, bar_of, bars_of, wants_race
from search.engine.completion import node_cancel, run_follow, run_locked
from search.engine.devices import device_faulted
from search.engine.leases import node_claim
from search.engine.problems import problem_judged, problem_unclear
from search.engine.spending import stopped_add
from search.engine.steps import step_complete, step_judge_elsewhere
from search.records.models import Node, Run
from search.records.queries import best_node
from search.records.queue import FollowUp

MOST_LOST = 5  # faults of the judge on one job: its step is then withdrawn, and another one is tried
LOST = "The judge failed on the other machine: python -m judge.bench says why there."


class NothingToSend(Exception):
    """The selection is empty or impossible; the message says what would be there."""


def nodes_waiting(*, run: Run) -> list[Request]:
    """Kernels of nodes that wait for the run's own device, and the preflight of its problem if that waits, too. Each
    knows the best so far. Raises NothingToSend.
    """
    nodes = Node.objects.filter(run=run, state=Node.State.JUDGING).select_related("run__problem").order_by("number")
    bar = bar_of(run.pk)
    found = _distinct(_asked(node, bar) for node in _unknown(run.device, list(nodes)))
    if not found:
        raise NothingToSend(
            f"No node of run {run.pk} waits for {run.device.name}. --device NAME measures completed nodes again."
        )
    return found


def requests_waiting(*, device: Device, now: datetime) -> list[Request]:
    """All that waits for a device: preflights first, since searches wait for them, then the kernels of its searches.
    What is quarantined stays here."""
    waits = preflights_unfinished([device], now=now)
    found = [Request(one.problem) for one in waits if not one.problem.quarantined]
    nodes = _waiting_on(device).select_related("run__problem").order_by("run", "number")
    unknown = _unknown(device, list(nodes))
    bars = bars_of({node.run_id for node in unknown})
    return _distinct([*found, *(_asked(node, bars[node.run_id]) for node in unknown)])


def job_wanted(*, job: BatchJob, now: datetime) -> bool:
    """Whether somebody still waits for the outcome of a job that has left."""
    if job.preflight:
        waits = preflights_unfinished([job.device], now=now)
        return any(one.problem.pk == job.problem_id and not one.problem.quarantined for one in waits)
    mine = _waiting_on(job.device).filter(run__problem=job.problem_id, source_hash=job.candidate_hash)
    return job.device.state != Device.State.QUARANTINED and mine.exists()


def job_stopped(*, job: BatchJob, device_ms: float, now: datetime) -> None:
    """Book the time that the machine of a device spent on a kernel that nobody waits for any more, with the node that
    asked for it last. A preflight leaves no spending."""
    asked = Node.objects.filter(run__device=job.device_id, run__problem=job.problem_id, source_hash=job.candidate_hash)
    node = None if job.preflight else asked.order_by("-pk").first()
    if node is None:
        return
    with transaction.atomic():
        if run_locked(node.run_id) is not None:
            stopped_add(node=node, device_ms=device_ms, now=now)


def _waiting_on(device: Device) -> QuerySet[Node]:
    """Nodes that wait for an outcome from the machine of a device."""
    return Node.objects.filter(state=Node.State.JUDGING, run__device=device, run__problem__quarantined_at=None)


def _asked(node: Node, bar: Bar) -> Request:
    return Request(node.run.problem, node.source, *bar, about=f"search {node.run_id}, node {node.number}")


def _unknown(device: Device, nodes: list[Node]) -> list[Node]:
    """The nodes that an outcome is needed for. Those whose verdict is known by now, such as of an equal kernel in
    another search, are completed: the next reap lets their search go on. One query while none is known."""
    known = Evaluation.objects.filter(device=device, candidate_hash__in={node.source_hash for node in nodes})
    pairs = set(known.values_list("problem_id", "candidate_hash")) if nodes else set()
    asked = [node for node in nodes if (node.run.problem_id, node.source_hash) in pairs]
    for node in asked:
        step_judge_elsewhere(node_id=node.pk)
    if not asked:
        return nodes
    left = set(
        Node.objects.filter(pk__in=[node.pk for node in nodes], state=Node.State.JUDGING).values_list("pk", flat=True)
    )
    return [node for node in nodes if node.pk in left]


def nodes_named(*, run: Run, numbers: Sequence[int]) -> list[Request]:
    """Kernels of these nodes. Raises NothingToSend that names a node without a kernel."""
    known = dict(Node.objects.filter(run=run, number__in=numbers).exclude(source="").values_list("number", "source"))
    gone = [str(number) for number in numbers if number not in known]
    if gone:
        raise NothingToSend(f"Run {run.pk} has no kernel under node {', '.join(gone)}.")
    return _distinct(Request(run.problem, known[number]) for number in numbers)


def passes_of_run(*, run: Run, top: int | None) -> list[Request]:
    """Kernels of the run that passed, the fastest first. Raises NothingToSend."""
    evaluations = Evaluation.objects.filter(nodes__run=run)
    return _passes(evaluations, run.problem, top, f"No kernel of run {run.pk} has passed.")


def passes_of_problem(*, problem: Problem, top: int | None) -> list[Request]:
    """Kernels of any search that passed on the problem, the fastest first. Raises NothingToSend."""
    evaluations = Evaluation.objects.filter(problem=problem)
    return _passes(evaluations, problem, top, f"No kernel for {problem.slug} has passed.")


def _passes(evaluations: QuerySet[Evaluation], problem: Problem, top: int | None, empty: str) -> list[Request]:
    passed = evaluations.filter(verdict=Verdict.PASS.value, speedup__isnull=False).order_by("-speedup", "id")
    found = _distinct(Request(problem, source) for source in passed.values_list("source", flat=True))
    if not found:
        raise NothingToSend(empty)
    return found[:top]


def _distinct(requests: Iterable[Request]) -> list[Request]:
    """The first of each kernel on a problem; layout and comments make no difference."""
    first: dict[tuple[int, str], Request] = {}
    for request in requests:
        first.setdefault((request.problem.pk, candidate_hash(request.source)), request)
    return list(first.values())


def nodes_answered(
    *,
    evaluations: Sequence[Evaluation],
    known: Sequence[Evaluation] = (),
    clock: Callable[[], datetime] = timezone.now,
) -> tuple[list[int], list[FollowUp]]:
    """Complete the nodes that waited for these outcomes: (their ids, what to enqueue). A second call completes none.
    Those that are `known` came before: they say nothing new of device and problem."""
    completed: list[int] = []
    follow_ups: list[FollowUp] = []
    for evaluation in evaluations:
        faults_clear(evaluation.device)
        problem_judged(evaluation=evaluation)
    for evaluation in (*evaluations, *known):
        for node in _nodes_of(evaluation.device_id, evaluation.problem_id, evaluation.candidate_hash):
            if wants_race(evaluation, best_node(node.run_id)):
                continue  # it leaves once more, beside the best
            owner = owner_name()
            if not node_claim(node_id=node.pk, state=Node.State.JUDGING, owner=owner, now=clock()):
                continue
            reused = evaluation.nodes.exists()
            follow_ups += step_complete(node=node, owner=owner, evaluation_id=evaluation.pk, reused=reused, clock=clock)
            completed.append(node.pk)
    return completed, follow_ups


def jobs_lost(*, lost: Iterable[Lost]) -> list[FollowUp]:
    """What faults of the judge on another machine lead to: three in a row quarantine its device, and those that a
    problem brings about the problem, as they do here. They are no verdict on a kernel: its job waits for another try,
    and after `MOST_LOST` the step is withdrawn, which costs the search none.
    """
    follow_ups: list[FollowUp] = []
    for one in lost:
        job = one.job
        if job.preflight:
            if len(job.lost) >= MOST_LOST:
                admission_fail(problem=job.problem, device=job.device, message=LOST)
        elif len(job.lost) >= MOST_LOST:
            follow_ups += _withdraw(job)
        if one.outcome.reason == UNCLEAR:
            problem_unclear(problem=job.problem, message=one.outcome.message)
        else:
            device_faulted(device=job.device, message=one.outcome.message or LOST)
    return follow_ups


def _withdraw(job: BatchJob) -> list[FollowUp]:
    follow_ups: list[FollowUp] = []
    for found in _nodes_of(job.device_id, job.problem_id, job.candidate_hash):
        with transaction.atomic():
            run = run_locked(found.run_id)
            if run is not None and node_cancel(run=run, node=found, why=LOST):
                follow_ups += run_follow(run=run, now=timezone.now())
    return follow_ups


def _nodes_of(device_id: int, problem_id: int, candidate: str) -> list[Node]:
    """Nodes that wait for the verdict on this kernel there."""
    waiting = Node.objects.filter(state=Node.State.JUDGING, run__device=device_id, run__problem=problem_id)
    return list(waiting.filter(source_hash=candidate).order_by("pk"))


def device_for(*, run: Run | None, name: str | None) -> Device:
    """The remote device that jobs are for. Raises NothingToSend that says how to get one."""
    device = Device.objects.filter(name=name).first() if name else run.device if run else None
    if device is None:
        known = ", ".join(Device.objects.filter(remote=True).values_list("name", flat=True)) or "none"
        raise NothingToSend(f"There is no device {name!r}. Enrolled: {known}; judge_enroll_device adds one.")
    if not device.remote:
        raise NothingToSend(
            f"{device.name} is judged by this machine's worker. Name an enrolled device with --device, or enroll "
            f"{device.name} when its machine has gone: judge_enroll_device {device.name}"
        )
    return device
