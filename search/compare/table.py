"""The rows of a comparison: each a name and one cell a kernel, numbers with their delta to the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from django.utils.translation import gettext, ngettext
from django.utils.translation import gettext_lazy as _

from judge.evaluations.measures import Measure, basis_word
from judge.templatetags.units import byte_size, error_size, microseconds, milliseconds, percent
from judge.values import Basis
from search.compare.columns import Calls, Case, Column
from search.records.models import Run

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

INDIFFERENCE = 0.01  # a difference within it is none, as in the judge's own calls
BUILTIN = "builtin"


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
    def text(self) -> str:
        """What the interval says."""
        if self.low is None or self.high is None:
            return gettext("no interval is known")
        if self.low > 1 + INDIFFERENCE:
            return gettext("faster")
        if self.high < 1 - INDIFFERENCE:
            return gettext("slower")
        if self.low >= 1 - INDIFFERENCE and self.high <= 1 + INDIFFERENCE:
            return gettext("the same within 1 %")
        return gettext("within the model's range") if self.basis is Basis.MODELLED else gettext("inconclusive")


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
        return gettext("another problem")
    if column.evaluation is None or base.evaluation is None:
        return gettext("not judged") if column.evaluation is None else gettext("the baseline is not judged")
    if column.evaluation.device_id != base.evaluation.device_id:
        return gettext("another device")
    if column.basis and base.basis and column.basis != base.basis:
        names = {"basis": basis_word(column.basis), "other": basis_word(base.basis)}
        return gettext("another basis: %(basis)s against %(other)s") % names
    if column.case != base.case:
        return gettext("another case of the problem")
    return ""


def race_why_not(column: Column, base: Column) -> str:
    """Why these two are not measured as a pair; empty when they can be. The service decides once more."""
    if found := why_not(column, base):
        return found
    if column.basis != Basis.MEASURED or column.evaluation is None or column.evaluation.elsewhere:
        modelled = column.basis == Basis.MODELLED
        return gettext("their times are modelled, not measured") if modelled else gettext("not timed here")
    if column.node.source_hash == base.node.source_hash:
        return gettext("the same kernel except for layout and comments")
    return ""


def cautions(column: Column, base: Column) -> list[str]:
    """What makes a comparison that is allowed less certain."""
    if column.evaluation is None or base.evaluation is None or column is base:
        return []
    found = []
    if column.evaluation.toolchain != base.evaluation.toolchain:
        found.append(gettext("judged with another toolchain"))
    if column.evaluation.protocol != base.evaluation.protocol:
        found.append(gettext("judged by another protocol"))
    return found


def _whole(count: float | None) -> str:
    return "—" if count is None else f"{count:,.0f}"


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.2f}"


@dataclass(frozen=True)
class Cell:
    """What one kernel has there: a measure or a text, and beside it the ratio to the baseline or a difference."""

    text: str = "—"
    measure: Measure | None = None
    ratio: Ratio | None = None
    difference: str = ""  # of whole numbers, signed
    barred: bool = False  # a number that may not be compared


Maker = Callable[[Column, Column | None, bool], Cell]  # of a kernel, the baseline to compare with, and `barred`


def sections(
    columns: Sequence[Column], base: Column
) -> list[tuple[StrOrPromise, list[tuple[StrOrPromise, list[Cell]]]]]:
    """(title, rows), each row a name and a cell for each kernel, with its difference to the baseline."""
    barred = [column is not base and bool(why_not(column, base)) for column in columns]
    asked = [
        (column, None if column is base or bar else base, bar) for column, bar in zip(columns, barred, strict=True)
    ]
    return [
        (title, [(name, [cell(*one) for one in asked]) for name, cell in rows.items()]) for title, rows in _SECTIONS
    ]


def case_rows(columns: Sequence[Column]) -> list[tuple[str, str, list[Case | None]]]:
    """(name, family, case of each kernel) of every round that any of them had, in the order of the first that had it;
    a second one of a name is one, too."""
    tables = [_numbered(column.cases) for column in columns]
    places = dict.fromkeys(place for table in tables for place in table)
    return [(name, family, [table.get((name, family, n)) for table in tables]) for name, family, n in places]


def _numbered(cases: Sequence[Case]) -> dict[tuple[str, str, int], Case]:
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for case in cases:
        name = (case.name, case.family)
        seen[name] += 1
        found[*name, seen[name]] = case
    return found


def _measured(value: Callable[[Column], Measure | None]) -> Maker:
    def cell(column: Column, base: Column | None, barred: bool) -> Cell:
        measure = value(column)
        beside = ratio(measure, value(base)) if base else None
        return Cell(measure=measure, ratio=beside, barred=barred and measure is not None)

    return cell


def _counted(value: Callable[[Column], int | None], shown: Callable[[float | None], str] = _whole) -> Maker:
    def cell(column: Column, base: Column | None, barred: bool) -> Cell:
        count, first = value(column), value(base) if base else None
        if count is None or first is None:
            return Cell(shown(count))
        change = count - first
        sign = "−" if change < 0 else "+"
        return Cell(shown(count), difference=f"{sign}{shown(abs(change))}" if change else gettext("equal"))

    return cell


def _text(value: Callable[[Column], str]) -> Maker:
    return lambda column, base, barred: Cell(value(column) or "—")


def _time(column: Column) -> str:
    timing = column.timing
    if timing is None:
        return ""
    source = "MODELLED" if timing.basis == Basis.MODELLED else f"n={timing.n} {timing.basis}"
    low, median, high = map(microseconds, (timing.low_us, timing.median_us, timing.high_us))
    return f"{median} [{low} – {high}] {source}"


def _case(column: Column) -> str:
    if column.evaluation is None:
        return ""
    return gettext("unknown") if column.evaluation.elsewhere else column.case or gettext("plain")


def _tolerance(column: Column) -> str:
    if column.tolerance is None:
        return ""
    error, allowed = column.tolerance
    return gettext("error %(error)s of %(allowed)s allowed") % {
        "error": error_size(error),
        "allowed": error_size(allowed),
    }


def _sandbox(column: Column) -> str:
    active = [layer.name for layer in column.layers if any(state.startswith("active") for state, _ in layer.states)]
    counts = {"active": len(active), "layers": len(column.layers)}
    return gettext("%(active)d of %(layers)d layers active") % counts if column.layers else ""


def _judged_in(column: Column) -> str:
    if column.evaluation is None or column.evaluation.elsewhere:
        return ""
    time = milliseconds(column.evaluation.wall_ms)
    return gettext("%(time)s, verdict reused from an equal kernel") % {"time": time} if column.node.reused else time


def tokens_text(run: Run, calls: Calls) -> str:
    """How often the proposer was called for a kernel, and the tokens of it as far as they are known."""
    if not calls.count:
        return gettext("not recorded") if run.origin == Run.Origin.IMPORT else gettext("none")
    if run.proposer == BUILTIN:
        return gettext("written by the built-in proposer")
    if calls.tokens is None:
        text = ngettext("%(count)d call, tokens unknown", "%(count)d calls, tokens unknown", calls.count)
    elif calls.untold:
        text = ngettext(
            "%(count)d call, at least %(tokens)s tokens", "%(count)d calls, at least %(tokens)s tokens", calls.count
        )
    else:
        text = ngettext("%(count)d call, %(tokens)s tokens", "%(count)d calls, %(tokens)s tokens", calls.count)
    return text % {"count": calls.count, "tokens": f"{calls.tokens or 0:,}"}


def cost_text(run: Run, calls: Calls) -> str:
    """What that cost; empty where nothing is to be paid."""
    if not calls.count or run.proposer == BUILTIN:
        return ""
    if calls.price_usd is None:
        return gettext("unknown")
    price = f"${calls.price_usd:.4f}"
    if not calls.unpriced:
        return price
    return gettext("at least %(price)s (%(unpriced)d unpriced)") % {"price": price, "unpriced": calls.unpriced}


_SECTIONS: tuple[tuple[StrOrPromise, dict[StrOrPromise, Maker]], ...] = (
    (
        _("Speed"),
        {
            _("Over eager"): _measured(lambda column: column.measure),
            _("Over torch.compile"): _measured(lambda column: column.over_compile),
            _("Paired with the previous best"): lambda column, base, barred: Cell(measure=column.raced),
            _("Time per call"): _text(_time),
        },
    ),
    (
        _("Resources"),
        {
            _("Launches"): _counted(lambda column: column.resources.launches or None),
            _("Registers per thread, at most"): _counted(lambda column: column.resources.registers),
            _("Shared memory, at most"): _counted(lambda column: column.resources.shared_bytes, byte_size),
            _("Register spills"): _counted(lambda column: column.resources.spills),
            _("GPU time in its own kernels"): _text(
                lambda column: "" if column.own_share is None else percent(column.own_share)
            ),
        },
    ),
    (
        _("Verdict"),
        {
            _("Closest to its tolerance"): _text(_tolerance),
            _("Precision"): _text(lambda column: column.policy.precision.value),
            _("Sealed cases"): _text(
                lambda column: column.sealed or (gettext("none run") if column.evaluation else "")
            ),
            _("Case"): _text(_case),
            _("Toolchain"): _text(lambda column: column.evaluation.toolchain if column.evaluation else ""),
            _("Sandbox"): _text(_sandbox),
            _("Judging time"): _text(_judged_in),
            _("Calls and tokens"): _text(lambda column: tokens_text(column.run, column.calls)),
            _("Cost"): _text(lambda column: cost_text(column.run, column.calls)),
        },
    ),
)
