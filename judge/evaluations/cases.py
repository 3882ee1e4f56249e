"""What is shown of the declared cases of a problem with weights: one row for each, out of an evaluation's report."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from judge.evaluations.measures import Measure
from judge.evaluations.models import CaseMeasurement, Evaluation
from judge.sources.highlighting import visible
from judge.values import Basis, CaseState, SpeedCall, Subject

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

NAME_CHARS, DETAIL_CHARS, ROWS = 200, 400, 200
FASTER, SLOWER, SAME, UNCLEAR = "faster", "slower", "same", "unclear"
_OF_CALL = {
    SpeedCall.FASTER: FASTER,
    SpeedCall.SLOWER: SLOWER,
    SpeedCall.SAME: SAME,
}
LABELS: dict[str, StrOrPromise] = {
    FASTER: _("faster"),
    SLOWER: _("slower"),
    SAME: _("the same"),
    UNCLEAR: _("inconclusive"),
    CaseState.TIMED: _("no speedup"),
    CaseState.CHECKED: _("right, not timed"),
    CaseState.FAILED: _("failed"),
    CaseState.LEFT_OUT: _("left out"),
    CaseState.NOT_REACHED: _("not reached"),
}
STYLES = {
    FASTER: "correct",
    SLOWER: "slower",
    CaseState.FAILED: "failed",
    CaseState.CHECKED: "ok",
}  # others are "skipped"


@dataclass(frozen=True)
class CaseRow:
    """One case: `state` is a key of LABELS; times in microseconds, None where there are none."""

    name: str  # "" for the constants as written
    weight: float
    evaluated: bool
    state: str
    detail: str
    eager_us: float | None
    kernel_us: float | None
    measure: Measure | None

    @property
    def label(self) -> str:
        return str(LABELS[self.state])

    @property
    def style(self) -> str:
        """Of its mark."""
        return STYLES.get(self.state, "skipped")

    @property
    def weight_text(self) -> str:
        return f"{self.weight:g}"

    @property
    def title(self) -> str:
        """The name as it is told to people."""
        return self.name or gettext("plain constants")

    @property
    def in_words(self) -> str:
        """For files: `thin, weight 1: slower, 0.50× [0.45–0.55] n=16 measured, 20.0 µs against 10.0 µs`."""
        found = [f"{self.title}, weight {self.weight_text}: {self.label}"]
        if self.measure is not None:
            found.append(str(self.measure))
        if self.kernel_us is not None and self.eager_us is not None:
            found.append(f"{self.kernel_us:.4g} µs against {self.eager_us:.4g} µs of eager")
        return ", ".join(found)


@dataclass(frozen=True)
class Cases:
    """The rows of an evaluation, the evaluated case first, and what its speedup is of."""

    rows: tuple[CaseRow, ...]
    mean_of: int  # cases of which the speedup is the weighted mean; 0 where it is no mean
    timed: bool  # whether there is a speedup

    @property
    def evaluated(self) -> str:
        """The case that is timed in any event, and beside other baselines."""
        return next((row.title for row in self.rows if row.evaluated), "")

    @property
    def slower(self) -> list[CaseRow]:
        """Where it loses."""
        return [row for row in self.rows if row.state == SLOWER]


def cases_of(evaluation: Evaluation) -> Cases | None:
    """None where no case has a weight."""
    report = evaluation.report
    found = report.get("weighted")
    raw = [row for row in found[:ROWS] if isinstance(row, Mapping)] if isinstance(found, list) else []
    if not raw:
        return None
    rows = tuple(_row(one, report) for one in raw)
    counting = [row for row in rows if row.weight > 0 and row.state != CaseState.LEFT_OUT]
    timed = evaluation.speedup is not None
    is_mean = timed and bool(counting) and all(row.measure is not None for row in counting)
    return Cases(rows, len(counting) if is_mean else 0, timed)


def _row(row: Mapping[str, Any], report: Mapping[str, Any]) -> CaseRow:
    evaluated = bool(row.get("evaluated"))
    state = str(row.get("state"))
    measure = measure_of(row.get("speedup")) if state == CaseState.TIMED else None
    timings = report.get("timings") if evaluated else row.get("timings")
    times = {one.get("subject"): one.get("median_us") for one in timings or () if isinstance(one, Mapping)}
    timed = measure is not None
    return CaseRow(
        name=visible(str(row.get("case") or ""))[:NAME_CHARS],
        weight=float(row.get("weight") or 0.0),
        evaluated=evaluated,
        state=_call(measure, row["speedup"]) if measure is not None else state if state in LABELS else UNCLEAR,
        detail=visible(str(row.get("detail") or ""))[:DETAIL_CHARS],
        eager_us=times.get(Subject.EAGER.value) if timed else None,
        kernel_us=times.get(Subject.CANDIDATE.value) if timed else None,
        measure=measure,
    )


def measure_of(row: Mapping[str, Any] | None) -> Measure | None:
    """A stored speedup of a report as a measure."""
    return Measure(row["value"], row["low"], row["high"], row["n"], Basis(row["basis"])) if row else None


def _call(measure: Measure, row: Mapping[str, Any]) -> str:
    """What is sure: by the call of a measured speedup, by the range of a modelled one."""
    if measure.basis is Basis.MEASURED:
        return _OF_CALL.get(SpeedCall(row.get("call") or ""), UNCLEAR)
    if measure.low is not None and measure.low > 1:
        return FASTER
    return SLOWER if measure.high is not None and measure.high < 1 else UNCLEAR


def case_measurements(evaluation: Evaluation) -> list[CaseMeasurement]:
    """Samples of other cases than the evaluated one. One query."""
    return list(evaluation.case_measurements.order_by("case", "subject"))
