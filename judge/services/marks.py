"""Marks of a kernel: in doubt, or retired. They hold for every verdict on it, on one problem and device, and go over to
new ones."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import QuerySet

from judge.models import Evaluation

REASON_CHARS = 300


@dataclass(frozen=True)
class Marks:
    """What is said of a kernel beside its verdict."""

    doubt: str = ""
    doubt_reason: str = ""
    retired: bool = False


def kernel_verdicts(*, problem_id: int, device_id: int, candidate_hash: str) -> QuerySet[Evaluation]:
    """Every verdict on one kernel there."""
    return Evaluation.objects.filter(problem=problem_id, device=device_id, candidate_hash=candidate_hash)


def marks_of(*, problem_id: int, device_id: int, candidate_hash: str) -> Marks:
    """The marks in force."""
    rows = kernel_verdicts(problem_id=problem_id, device_id=device_id, candidate_hash=candidate_hash)
    found = rows.order_by("-id").values_list("doubt", "doubt_reason", "retired").first()
    return Marks(*found) if found else Marks()


def marks_set(evaluation: Evaluation, marks: Marks) -> None:
    """Put these marks on the kernel of `evaluation`, in the caller's transaction."""
    rows = kernel_verdicts(
        problem_id=evaluation.problem_id, device_id=evaluation.device_id, candidate_hash=evaluation.candidate_hash
    )
    rows.update(doubt=marks.doubt, doubt_reason=marks.doubt_reason[:REASON_CHARS], retired=marks.retired)
