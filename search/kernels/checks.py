"""What the judge's checks said of kernels: how close to the allowed error, and the sealed cases. One query."""

from __future__ import annotations

from typing import Any

from django.db.models.fields.json import KeyTransform

from judge.evaluations.facts import sealed_check
from judge.evaluations.models import Evaluation


def checks_of(evaluations: list[int]) -> dict[int, tuple[tuple[float, float] | None, str]]:
    """Tolerance and sealed check of each, without the rest of their reports."""
    rows = Evaluation.objects.filter(pk__in=evaluations).order_by()
    parts = rows.annotate(cases=KeyTransform("cases", "report"), checks=KeyTransform("stages", "report"))
    return {
        pk: (_closest(cases), sealed_check(checks)) for pk, cases, checks in parts.values_list("pk", "cases", "checks")
    }


def _closest(cases: Any) -> tuple[float, float] | None:
    known = [
        (float(row["error"]), float(row["allowed"]))
        for row in (cases if isinstance(cases, list) else ())
        if isinstance(row, dict) and isinstance(row.get("error"), int | float) and row.get("allowed")
    ]
    return max(known, key=lambda pair: pair[0] / pair[1], default=None)
