"""Kernels that lead nothing because of a mark: retired, or in doubt."""

from __future__ import annotations

from django.db.models import Exists, OuterRef, Q, QuerySet

from judge.evaluations.models import CARRIES_MARK, Evaluation
from judge.values import Basis
from search.records.models import Node

RETIRED, DOUBTED = "retired", "doubt"
MARKED = {"": Q(doubt="", retired=False), RETIRED: Q(doubt="", retired=True), DOUBTED: ~Q(doubt="")}
MOST = 2_000  # rows read to count them


def marked_rows() -> QuerySet[Evaluation]:
    """Evaluations with a mark, by their own index: they are few among many."""
    return Evaluation.objects.filter(CARRIES_MARK)


def left_out(basis: Basis, device: str = "") -> tuple[int, int]:
    """(retired, in doubt): kernels with a speedup of this basis, on a device or on all."""
    nodes = Node.objects.filter(evaluation=OuterRef("pk"), state=Node.State.COMPLETED)
    rows = marked_rows().filter(Exists(nodes), speedup__isnull=False, basis=basis.value).order_by()
    rows = rows.filter(device__name=device) if device else rows
    kernels = set(rows.values_list("problem", "device", "candidate_hash", "doubt")[:MOST])
    return sum(not doubt for *_, doubt in kernels), sum(bool(doubt) for *_, doubt in kernels)
