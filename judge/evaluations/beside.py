"""How a kernel stands against each baseline that it has a time beside, and what baselines and numerics are called."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.db.models import QuerySet
from django.utils.translation import gettext, gettext_noop
from django.utils.translation import gettext_lazy as _

from judge.values import ALTERNATIVES, BASELINES, Basis, Gradients, Needs, Precision, Subject

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

_BY_SUBJECT = {one.subject: one for one in BASELINES.values()}
_TEXTS = (  # labels of baselines that are words
    gettext_noop("eager"),
    gettext_noop("eager, as PyTorch ships"),
    gettext_noop("eager, strict"),
    gettext_noop("eager, cudnn.benchmark"),
    gettext_noop("eager, channels-last and cudnn.benchmark"),
    gettext_noop("eager, scaled_dot_product_attention"),
    gettext_noop("eager, autocast to bfloat16"),
)
SUBJECTS: dict[Subject, StrOrPromise] = {
    Subject.CANDIDATE: _("this kernel"),
    Subject.INCUMBENT: _("previous best"),
    **{one.subject: _(one.label) for one in BASELINES.values()},
}
SHIPPED = BASELINES["shipped"]
SAME = f"left out: {Needs.TF32.value}"  # what a report says of a baseline that would be eager again


_NUMERICS = {
    Precision.STRICT: _("strict: as exact as the reference in its data type; no TF32"),
    Precision.SHIPPED: _("as PyTorch ships: cuDNN may use TF32 (convolutions, recurrent layers), products may not"),
    Precision.TF32: _("TF32: products, convolutions and recurrent layers may use it"),
    Precision.HALF: _("half: 16-bit and TF32 arithmetic are allowed"),
}


_GRADIENTS = {
    Gradients.NONE: _("none: forward alone is judged"),
    Gradients.INPUTS: _("of inputs: forward, then backward to every floating input"),
    Gradients.PARAMETERS: _("of parameters: forward, then backward to every parameter"),
    Gradients.ALL: _("of inputs and parameters: forward, then backward to both"),
}
GRADIENTS_HELP = _(
    "With gradients, forward and backward are compared and timed as one function. A kernel needs a backward of its "
    "own, in a torch.autograd.Function."
)


def gradients_text(gradients: Gradients) -> str:
    """Of what gradients are asked, in words."""
    return str(_GRADIENTS[gradients])


def numerics_text(precision: Precision) -> str:
    """What these numerics mean, in words."""
    return str(_NUMERICS[precision])


def baseline_text(subject: Subject) -> str:
    """How a baseline is named to people."""
    return gettext(_BY_SUBJECT[subject].label)


Evidence = list[float | None]  # low, high and n of a speedup, as it is stored beside its value


@dataclass(frozen=True)
class Beside:
    """Speedups beside the one over eager. `fastest` is the baseline over which it is the smallest, eager included."""

    over_shipped: float | None = None
    over_fastest: float | None = None
    fastest: str = ""  # a Subject
    shipped_interval: Evidence | None = None
    fastest_interval: Evidence | None = None


def beside(report: Mapping[str, Any], precision: str = "") -> Beside:
    """From an outcome's JSON; `precision`: numerics of the problem. Nothing where there is no speedup over eager.

    All of the evaluated case, also where the speedup is a mean over cases: other baselines have times in no other.
    """
    own = evaluated_speedup(report)
    eager = _value(own)
    if eager is None or _value(report.get("speedup")) is None:
        return Beside()
    found, rows = {Subject.EAGER: eager}, {Subject.EAGER: own}
    basis = report["speedup"].get("basis")
    for one in ALTERNATIVES:
        row = report.get(one.key) or {}
        value = _value(row)
        if value is not None and row.get("basis") == basis:
            found[one.subject], rows[one.subject] = value, row
    fastest = min(found, key=lambda subject: found[subject])
    said = (report.get("environment") or {}).get("baselines")
    notes = said if isinstance(said, dict) else {}
    as_shipped = precision == SHIPPED.precision or notes.get(SHIPPED.name) == SAME
    shipped = Subject.EAGER if as_shipped else SHIPPED.subject
    return Beside(
        found.get(shipped),
        found[fastest],
        fastest.value,
        _evidence(rows.get(shipped)),
        _evidence(rows[fastest]),
    )


def _evidence(row: Any) -> Evidence | None:
    return [row.get(name) for name in ("low", "high", "n")] if isinstance(row, Mapping) else None


FIGURE = ("speedup", "speedup_low", "basis", *(f"report__{one.key}" for one in ALTERNATIVES))  # as `won` takes them


def won(speedup: float | None, low: float | None, basis: str, *others: Any) -> bool:
    """Whether a kernel is faster than the fastest baseline it was measured against: its whole interval lies above 1
    over eager, and over each of the `others` that has a row. A model's range is one error for all kernels, and a
    reported figure has none: of these the value decides. False without a speedup."""
    rows = [{"value": speedup, "low": low, "basis": basis}, *(row for row in others if isinstance(row, Mapping))]
    over = [row["value"] if row["basis"] != Basis.MEASURED or row["low"] is None else row["low"] for row in rows]
    return speedup is not None and min(over) > 1


def beating(evaluations: QuerySet[Any]) -> set[int]:
    """Ids of those that beat PyTorch, audited or not. One query, which leaves the reports in the database."""
    rows = evaluations.filter(speedup__gt=1).order_by().values_list("pk", *FIGURE)
    return {pk for pk, *row in rows if won(*row)}


def beats_torch(evaluation: Any) -> bool:
    """Whether an Evaluation beats every baseline it was timed beside, audited or not. Reads its report."""
    others = (evaluation.report.get(one.key) for one in ALTERNATIVES)
    return won(evaluation.speedup, evaluation.speedup_low, evaluation.basis, *others)


def evaluated_speedup(report: Mapping[str, Any]) -> Any:
    """The row of the speedup over eager in the evaluated case, out of an outcome's JSON."""
    rows = report.get("weighted") or ()
    own = next((row for row in rows if isinstance(row, Mapping) and row.get("evaluated")), None)
    return report.get("speedup") if own is None else own.get("speedup")


def _value(row: Any) -> float | None:
    value = row.get("value") if isinstance(row, Mapping) else None
    return float(value) if isinstance(value, int | float) and value > 0 else None
