"""The rows of a comparison: each a name and one cell a kernel, numbers with their delta to the baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from judge.evaluations.measures import Measure
from judge.templatetags.units import byte_size, error_size, microseconds, milliseconds, percent
from judge.values import Basis
from search.compare.columns import Calls, Case, Column
from search.records.models import Run

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


BUILTIN = "builtin"


@dataclass(frozen=True)
class Cell:
    """What one kernel has there: a measure or a text, and beside it the ratio to the baseline or a difference."""

    text: str = ""
    measure: Measure | None = None
    ratio: Ratio | None = None
    difference: str = ""  # of whole numbers, signed
    barred: bool = False  # a number that may not be compared


@dataclass(frozen=True)
class Row:
    """One line. `metric` is its name in files."""

    name: str
    metric: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True)
class CaseRow:
    """One correctness round over all kernels; None where a kernel did not have it."""

    name: str
    family: str
    cells: tuple[Case | None, ...]


def speed_rows(columns: Sequence[Column], base: Column) -> list[Row]:
    """Speedups and times, each with the ratio to the baseline as far as both belong together."""
    return [
        _measures("Over eager", "speedup", columns, base, lambda column: column.measure),
        _measures("Over torch.compile", "speedup_compile", columns, base, lambda column: column.over_compile),
        Row("Paired with the previous best", "raced", tuple(Cell(measure=column.raced) for column in columns)),
        Row("Time per call", "time", tuple(_time(column, base) for column in columns)),
    ]


def resource_rows(columns: Sequence[Column], base: Column) -> list[Row]:
    """Launches, registers, shared memory, spills: as the compiler counted them."""
    return [
        _counts("Launches", "launches", columns, base, lambda column: column.resources.launches or None),
        _counts("Registers per thread, at most", "registers", columns, base, lambda column: column.resources.registers),
        _counts(
            "Shared memory, at most",
            "shared_bytes",
            columns,
            base,
            lambda column: column.resources.shared_bytes,
            byte_size,
        ),
        _counts("Register spills", "spills", columns, base, lambda column: column.resources.spills),
        Row(
            "GPU time in its own kernels",
            "own_share",
            tuple(Cell("—" if column.own_share is None else percent(column.own_share)) for column in columns),
        ),
    ]


def trust_rows(columns: Sequence[Column]) -> list[Row]:
    """How far the verdict can be believed: the closest round, the policy, the sealed check, who judged it."""

    def texts(name: str, metric: str, text: Callable[[Column], str]) -> Row:
        return Row(name, metric, tuple(Cell(text(column) or "—") for column in columns))

    return [
        texts("Closest to its tolerance", "tolerance", _tolerance),
        texts("Precision", "precision", lambda column: column.policy.precision.value),
        texts("Sealed cases", "sealed", lambda column: column.sealed or ("none run" if column.evaluation else "")),
        texts("Case", "case", _case),
        texts("Toolchain", "toolchain", lambda column: column.evaluation.toolchain if column.evaluation else ""),
        texts("Sandbox", "sandbox", _sandbox),
        texts("Judging time", "wall_ms", _judged_in),
        texts("Calls and tokens", "tokens", lambda column: tokens_text(column.run, column.calls)),
        texts("Cost", "price_usd", lambda column: cost_text(column.run, column.calls)),
    ]


def case_rows(columns: Sequence[Column]) -> list[CaseRow]:
    """Every round that any of them had, in the order of the first that had it; a second one of a name is one, too."""
    tables = [_numbered(column.cases) for column in columns]
    places = dict.fromkeys(place for table in tables for place in table)
    return [CaseRow(*place[:2], tuple(table.get(place) for table in tables)) for place in places]


def _numbered(cases: Sequence[Case]) -> dict[tuple[str, str, int], Case]:
    seen: Counter[tuple[str, str]] = Counter()
    found = {}
    for case in cases:
        name = (case.name, case.family)
        seen[name] += 1
        found[*name, seen[name]] = case
    return found


def _measures(
    name: str, metric: str, columns: Sequence[Column], base: Column, value: Callable[[Column], Measure | None]
) -> Row:
    cells = []
    for column in columns:
        measure, barred = value(column), column is not base and bool(why_not(column, base))
        beside = None if column is base or barred else ratio(measure, value(base))
        cells.append(Cell(measure=measure, ratio=beside, barred=barred and measure is not None))
    return Row(name, metric, tuple(cells))


def _time(column: Column, base: Column) -> Cell:
    timing = column.timing
    if timing is None:
        return Cell("—")
    modelled = timing.basis == Basis.MODELLED
    spread = f"[{microseconds(timing.low_us)} – {microseconds(timing.high_us)}]"
    text = f"{microseconds(timing.median_us)} {spread} {'MODELLED' if modelled else f'n={timing.n} {timing.basis}'}"
    return Cell(text)


def _counts(
    name: str,
    metric: str,
    columns: Sequence[Column],
    base: Column,
    value: Callable[[Column], int | None],
    shown: Callable[[float | None], str] = lambda count: f"{count:,.0f}" if count is not None else "—",
) -> Row:
    first = value(base)
    cells = []
    for column in columns:
        count = value(column)
        barred = column is not base and bool(why_not(column, base))
        change = "" if count is None or first is None or column is base or barred else _signed(count - first, shown)
        cells.append(Cell(shown(count), difference=change))
    return Row(name, metric, tuple(cells))


def _signed(change: int, shown: Callable[[float | None], str]) -> str:
    return f"{'−' if change < 0 else '+'}{shown(abs(change))}" if change else "equal"


def _case(column: Column) -> str:
    if column.evaluation is None:
        return ""
    return "unknown" if column.evaluation.elsewhere else column.case or "plain"


def _tolerance(column: Column) -> str:
    if column.tolerance is None:
        return ""
    error, allowed = column.tolerance
    return f"error {error_size(error)} of {error_size(allowed)} allowed"


def _sandbox(column: Column) -> str:
    active = [layer.name for layer in column.layers if any(state.startswith("active") for state, _ in layer.states)]
    return f"{len(active)} of {len(column.layers)} layers active" if column.layers else ""


def _judged_in(column: Column) -> str:
    if column.evaluation is None or column.evaluation.elsewhere:
        return ""
    return milliseconds(column.evaluation.wall_ms) + (
        ", verdict reused from an equal kernel" if column.node.reused else ""
    )


def tokens_text(run: Run, calls: Calls) -> str:
    """How often the proposer was called for a kernel, and the tokens of it as far as they are known."""
    if not calls.count:
        return "not recorded" if run.origin == Run.Origin.IMPORT else "none"
    if run.proposer == BUILTIN:
        return "written by the built-in proposer"
    many = f"{calls.count} call{'s' if calls.count > 1 else ''}, "
    if calls.tokens is None:
        return many + "tokens unknown"
    return many + ("at least " if calls.untold else "") + f"{calls.tokens:,} tokens"


def cost_text(run: Run, calls: Calls) -> str:
    """What that cost; empty where nothing is to be paid."""
    if not calls.count or run.proposer == BUILTIN:
        return ""
    if calls.price_usd is None:
        return "unknown"
    return (
        f"at least ${calls.price_usd:.4f} ({calls.unpriced} unpriced)" if calls.unpriced else f"${calls.price_usd:.4f}"
    )
