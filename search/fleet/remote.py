"""Nodes and devices without a worker here: which kernels leave as jobs, and what an outcome means for a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime

from django.db.models import QuerySet
from django.utils import timezone

from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.values import Verdict, canonical_hash
from search.engine.leases import node_claim, owner_name
from search.engine.steps import step_complete
from search.records.models import Node, Run
from search.records.queue import FollowUp

Candidate = tuple[Problem, str]


class NothingToSend(Exception):
    """The selection is empty or impossible; the message says what would be there."""


def nodes_waiting(*, run: Run) -> list[Candidate]:
    """Kernels of nodes that wait for the run's own device. Raises NothingToSend."""
    nodes = Node.objects.filter(run=run, state=Node.State.JUDGING).order_by("number")
    found = _distinct((run.problem, node.source) for node in nodes)
    if not found:
        raise NothingToSend(
            f"No node of run {run.pk} waits for {run.device.name}. --device NAME measures completed nodes again."
        )
    return found


def nodes_named(*, run: Run, numbers: Sequence[int]) -> list[Candidate]:
    """Kernels of these nodes. Raises NothingToSend that names a node without a kernel."""
    known = dict(Node.objects.filter(run=run, number__in=numbers).exclude(source="").values_list("number", "source"))
    gone = [str(number) for number in numbers if number not in known]
    if gone:
        raise NothingToSend(f"Run {run.pk} has no kernel under node {', '.join(gone)}.")
    return _distinct((run.problem, known[number]) for number in numbers)


def passes_of_run(*, run: Run, top: int | None) -> list[Candidate]:
    """Kernels of the run that passed, the fastest first. Raises NothingToSend."""
    evaluations = Evaluation.objects.filter(nodes__run=run)
    return _passes(evaluations, run.problem, top, f"No kernel of run {run.pk} has passed.")


def passes_of_problem(*, problem: Problem, top: int | None) -> list[Candidate]:
    """Kernels of any search that passed on the problem, the fastest first. Raises NothingToSend."""
    evaluations = Evaluation.objects.filter(problem=problem)
    return _passes(evaluations, problem, top, f"No kernel for {problem.slug} has passed.")


def _passes(evaluations: QuerySet[Evaluation], problem: Problem, top: int | None, empty: str) -> list[Candidate]:
    passed = evaluations.filter(verdict=Verdict.PASS.value, speedup__isnull=False).order_by("-speedup", "id")
    found = _distinct((problem, source) for source in passed.values_list("source", flat=True))
    if not found:
        raise NothingToSend(empty)
    return found[:top]


def _distinct(candidates: Iterable[Candidate]) -> list[Candidate]:
    """The first of each kernel; layout and comments make no difference."""
    first: dict[str, Candidate] = {}
    for problem, source in candidates:
        first.setdefault(canonical_hash(source), (problem, source))
    return list(first.values())


def nodes_answered(
    *, evaluations: Iterable[Evaluation], clock: Callable[[], datetime] = timezone.now
) -> tuple[list[int], list[FollowUp]]:
    """Complete the nodes that waited for these outcomes: (their ids, what to enqueue). A second call completes none."""
    completed: list[int] = []
    follow_ups: list[FollowUp] = []
    for evaluation in evaluations:
        waiting = Node.objects.filter(
            state=Node.State.JUDGING,
            run__device=evaluation.device_id,
            run__problem=evaluation.problem_id,
            source_hash=evaluation.candidate_hash,
        )
        for node in waiting.order_by("pk"):
            owner = owner_name()
            if not node_claim(node_id=node.pk, state=Node.State.JUDGING, owner=owner, now=clock()):
                continue
            reused = evaluation.nodes.exists()
            follow_ups += step_complete(node=node, owner=owner, evaluation_id=evaluation.pk, reused=reused, clock=clock)
            completed.append(node.pk)
    return completed, follow_ups


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
