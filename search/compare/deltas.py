"""What one kernel's number is beside the baseline's, and when that is no question at all. Numbers of other devices,
cases or bases are never compared."""

from __future__ import annotations

from dataclasses import dataclass

from judge.evaluations.measures import Measure
from judge.values import Basis
from search.compare.columns import Column

INDIFFERENCE = 0.01  # a difference within it is none, as in the judge's own calls


@dataclass(frozen=True)
class Ratio(Measure):
    """How many times the baseline's speed, with the widest interval that both intervals allow."""

    @property
    def error(self) -> None:
        """Two modelled ranges make no single factor that anybody calibrated: the interval is shown as it is."""
        return None

    @property
    def interval(self) -> str:
        return f"[{_short(self.low)}–{_short(self.high)}]" if self.low is not None and self.high is not None else ""

    @property
    def words(self) -> str:
        """What the interval says."""
        if self.low is None or self.high is None:
            return "no interval is known"
        if self.low > 1 + INDIFFERENCE:
            return "faster"
        if self.high < 1 - INDIFFERENCE:
            return "slower"
        if self.low >= 1 - INDIFFERENCE and self.high <= 1 + INDIFFERENCE:
            return "the same within 1 %"
        return "within the model's range" if self.basis is Basis.MODELLED else "inconclusive"


def ratio(value: Measure | None, base: Measure | None) -> Ratio | None:
    """`value` over `base`; None when either is missing or their bases differ. n is that of the smaller sample."""
    if value is None or base is None or value.basis is not base.basis:
        return None
    known = None not in (value.low, value.high, base.low, base.high)
    low = value.low / base.high if known and value.low and base.high else None
    high = value.high / base.low if known and value.high and base.low else None
    if value.basis is not Basis.REPORTED and (low is None or high is None):
        return None
    counts = [n for n in (value.n, base.n) if n]
    return Ratio(value.value / base.value, low, high, min(counts) if len(counts) == 2 else None, value.basis)


def why_not(column: Column, base: Column) -> str:
    """Why no number of `column` may be compared with the baseline's; empty when it may."""
    if column.run.problem_id != base.run.problem_id:
        return "another problem"
    if column.evaluation is None or base.evaluation is None:
        return "not judged" if column.evaluation is None else "the baseline is not judged"
    if column.evaluation.device_id != base.evaluation.device_id:
        return "another device"
    if column.basis and base.basis and column.basis != base.basis:
        return "another basis: " + " against ".join(_word(name) for name in (column.basis, base.basis))
    if column.case != base.case:
        return "another case of the problem"
    return ""


def race_why_not(column: Column, base: Column) -> str:
    """Why these two are not measured as a pair; empty when they can be. The service decides once more."""
    if found := why_not(column, base):
        return found
    if column.basis != Basis.MEASURED or column.evaluation is None or column.evaluation.elsewhere:
        return "their times are modelled, not measured" if column.basis == Basis.MODELLED else "not timed here"
    if column.node.source_hash == base.node.source_hash:
        return "the same kernel except for layout and comments"
    return ""


def cautions(column: Column, base: Column) -> list[str]:
    """What makes a comparison that is allowed less certain."""
    if column.evaluation is None or base.evaluation is None or column is base:
        return []
    found = []
    if column.evaluation.toolchain != base.evaluation.toolchain:
        found.append("judged with another toolchain")
    if column.evaluation.protocol != base.evaluation.protocol:
        found.append("judged by another protocol")
    return found


def _word(basis: str) -> str:
    return "MODELLED" if basis == Basis.MODELLED else basis


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"
