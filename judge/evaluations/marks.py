"""Marks of a kernel: in doubt, or retired. They hold for every verdict on it, on one problem and device, and go over to
new ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from django.db.models import QuerySet

from judge.evaluations.models import Evaluation

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


def marks_locked(*, problem_id: int, device_id: int, candidate_hash: str) -> Marks:
    """The marks in force, and nobody changes them or adds a verdict without them until the caller's transaction ends.

    Who locks runs too locks those before.
    """
    rows = kernel_verdicts(problem_id=problem_id, device_id=device_id, candidate_hash=candidate_hash)
    list(rows.select_for_update(no_key=True).order_by("pk").values_list("pk"))
    return marks_of(problem_id=problem_id, device_id=device_id, candidate_hash=candidate_hash)


def marks_set(evaluation: Evaluation, before: Marks, after: Marks) -> None:
    """Write what differs on the kernel of `evaluation`, in the caller's transaction, which has locked its marks."""
    now = {**asdict(after), "doubt_reason": after.doubt_reason[:REASON_CHARS]}
    changed = {name: value for name, value in now.items() if asdict(before)[name] != value}
    rows = kernel_verdicts(
        problem_id=evaluation.problem_id, device_id=evaluation.device_id, candidate_hash=evaluation.candidate_hash
    )
    if changed:
        rows.update(**changed)
