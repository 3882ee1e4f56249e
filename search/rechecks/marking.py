"""Kernels that people, or a later verdict, do not believe, and kernels that lead no list any more. What a search has
decided stays as it was; from a mark on it decides with the kernel as a wrong one, until it is released (ADR 46)."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from django.db import transaction

from adaexplore_site.core.text import clip
from judge.evaluations.models import Evaluation
from judge.evaluations.services import Marks, marks_locked, marks_set
from search.engine.completion import BY_MARK, best_event
from search.records.events import KernelMarked
from search.records.kinds import action_record
from search.records.log import event_write
from search.records.models import Node, Run
from search.records.queries import best_node

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

QUARANTINE, FLAKY, RELEASE, RETIRE, RESTORE = (
    "kernel.quarantine", "kernel.flaky", "kernel.release", "kernel.retire", "kernel.restore",
)  # fmt: skip
VERBS = (QUARANTINE, FLAKY, RELEASE, RETIRE, RESTORE)
VERB_OF = {  # by the column that a mark changes, and its value
    ("doubt", ""): RELEASE,
    ("doubt", Evaluation.Doubt.QUARANTINED.value): QUARANTINE,
    ("doubt", Evaluation.Doubt.FLAKY.value): FLAKY,
    ("retired", True): RETIRE,
    ("retired", False): RESTORE,
}


def kernel_failed_anew(*, node: Node, evaluation: Evaluation, fresh: Evaluation, also: int | None = None) -> bool:
    """Quarantine a kernel that passed once and failed when it was judged again, in the caller's transaction. False
    where it was in doubt before. `also` is a search that the caller is to lock."""
    held = kernel_held(evaluation, also)
    if held.marks.doubt:
        return False
    reason = f"judged again it ended: {fresh.verdict.replace('_', ' ')}" + (f", {fresh.reason}" if fresh.reason else "")
    after = replace(held.marks, doubt=Evaluation.Doubt.QUARANTINED.value, doubt_reason=reason)
    marks_put(node=node, held=held, verb=QUARANTINE, after=after, user=None, key=None)
    return True


@dataclass(frozen=True)
class Held:
    """A kernel that nobody else marks until the transaction ends: its marks, the searches that have it, and there the
    numbers of its nodes."""

    evaluation: Evaluation
    marks: Marks
    runs: dict[int, Run]
    numbers: dict[int, list[int]]


def kernel_held(evaluation: Evaluation, also: int | None = None) -> Held:
    """The kernel of a verdict with its marks, locked until the transaction ends.

    A search that completed an equal kernel while the locks were taken has them taken again: its log must say so too.
    """
    while True:
        before = transaction.savepoint()
        if (held := _held_once(evaluation, also)) is not None:
            return held
        transaction.savepoint_rollback(before)  # lets the locks go: searches are locked in their order


def _held_once(evaluation: Evaluation, also: int | None) -> Held | None:
    """Everything is read once it is locked: searches by their ids, then the verdicts on the kernel."""
    kernel = evaluation.kernel
    equal = Node.objects.filter(
        state=Node.State.COMPLETED, **{f"evaluation__{name}": value for name, value in kernel.items()}
    )
    ids = {*equal.values_list("run", flat=True), *([] if also is None else [also])}
    runs = {run.pk: run for run in Run.objects.select_for_update().filter(pk__in=ids).order_by("pk")}
    marks = marks_locked(**kernel)
    numbers = dict[int, list[int]]()
    for run_id, number in equal.order_by("run", "number").values_list("run", "number"):
        numbers.setdefault(run_id, []).append(number)
    if not numbers.keys() <= runs.keys():
        return None
    return Held(evaluation, marks, runs, numbers)


def marks_put(
    *, node: Node, held: Held, verb: str, after: Marks, user: AbstractBaseUser | None, key: str | None
) -> None:
    """Write marks, say so in the log of every search that has the kernel, and audit it."""
    before = held.marks
    bests = {pk: _best(pk) for pk in held.numbers}
    marks_set(held.evaluation, before, after)
    if before.doubt != after.doubt:
        for pk, numbers in held.numbers.items():
            _tell(held.runs[pk], numbers, after, bests[pk], user)
    action_record(
        verb=verb,
        run=held.runs[node.run_id],
        user=user,
        key=key,
        before=asdict(before),
        after={"number": node.number, **asdict(after), **({} if user is not None else {"by": "judge"})},
    )


def _tell(run: Run, numbers: list[int], marks: Marks, before: int | None, user: AbstractBaseUser | None) -> None:
    best = best_node(run.pk)
    number = best.number if best else None
    for one in numbers:
        marked = KernelMarked(number=one, doubt=marks.doubt, reason=clip(marks.doubt_reason, 200), best=number)
        event_write(run=run, event=marked, actor=user)
    if best is not None and best.evaluation is not None and number != before:
        event_write(run=run, event=best_event(best, best.evaluation, because=BY_MARK))


def _best(run_id: int) -> int | None:
    found = best_node(run_id)
    return found.number if found else None
