"""The one form in which a speedup leaves the house: value, interval, sample count and where it comes from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from django.utils.translation import gettext as _

from judge.bench.interpreting.calibration import claim, factor
from judge.evaluations.beside import baseline_text
from judge.values import Basis, Subject, Verdict

BESIDE_COLUMNS = (
    *("over_shipped", "shipped_low", "shipped_high", "shipped_n"),
    *("over_fastest", "fastest_low", "fastest_high", "fastest_n", "fastest"),
)
BESIDE = ("over_shipped", "over_fastest", "shipped_interval", "fastest_interval")  # beside `fastest`
EVEN = 1e-3  # of a logarithm: what rounding leaves of a range that reaches as far down as up
_STYLES = {
    Verdict.BAD_SOURCE: "compile-error",
    Verdict.LOAD_FAILED: "compile-error",
    Verdict.COMPILE_FAILED: "compile-error",
    Verdict.DISHONEST: "suspect",
    Verdict.SUSPECT: "suspect",
    Verdict.UNSUPPORTED: "suspect",
    Verdict.COMPILED_ONLY: "suspect",
    Verdict.CANCELLED: "cancelled",
}


@dataclass(frozen=True)
class Measure:
    """A speedup over eager with its evidence. `low`, `high` and `n` are None only for reported numbers.

    Beside it, where they are known: the speedup over eager as PyTorch ships, and over the fastest baseline (a Subject).
    """

    value: float
    low: float | None
    high: float | None
    n: int | None
    basis: Basis
    over_shipped: float | None = None
    over_fastest: float | None = None
    fastest: str = ""
    shipped_interval: Sequence[Any] | None = None  # low, high and n of `over_shipped`
    fastest_interval: Sequence[Any] | None = None

    def __post_init__(self) -> None:
        if self.basis is not Basis.REPORTED and (self.low is None or self.high is None):
            raise ValueError("a measured or modelled speedup needs its interval")

    @classmethod
    def of(cls, row: Any) -> Self | None:
        """From anything with `speedup`, `basis` and `low` or `speedup_low`, ...; None when it has no speedup."""
        value = getattr(row, "speedup", None)
        basis = getattr(row, "basis", "")
        if isinstance(row, cls):
            return row
        if value is None or not basis:
            return None
        low, high = _either(row, "speedup_low", "low"), _either(row, "speedup_high", "high")
        if basis != Basis.REPORTED and (low is None or high is None):
            return None  # a number without its evidence is not shown
        others = {name: getattr(row, name, None) for name in BESIDE}
        named = getattr(row, "fastest", None) or ""
        return cls(value, low, high, _either(row, "speedup_n", "n"), Basis(basis), **others, fastest=named)

    @property
    def number(self) -> str:
        """`2.31×`."""
        return f"{_digits(self.value, self.basis)}×"

    @property
    def error(self) -> float | None:
        """The factor that a modelled number is within; None for others, and where the range is no factor."""
        if self.basis is not Basis.MODELLED or not self.low or not self.high or not self.value > 0:
            return None
        up, down = math.log(self.high / self.value), math.log(self.value / self.low)
        return self.high / self.value if up > EVEN and abs(up - down) < EVEN else None

    @property
    def interval(self) -> str:
        """`[2.24–2.38]`, `within 1.4×` of a modelled number, or empty for a reported one."""
        if self.low is None or self.high is None or self.basis is Basis.REPORTED:
            return ""
        if self.error is not None:
            return _("within %(factor)s") % {"factor": factor(self.error)}
        return f"[{_digits(self.low, self.basis)}–{_digits(self.high, self.basis)}]"

    @property
    def source(self) -> str:
        """What must stand beside the number."""
        return basis_text(self.basis)

    @property
    def others(self) -> dict[str, Measure]:
        """`over_shipped` and `over_fastest` as measures of their own, where they are stored with their interval."""
        found = {}
        for name, evidence in (("over_shipped", self.shipped_interval), ("over_fastest", self.fastest_interval)):
            value, (low, high, n) = getattr(self, name), evidence or (None, None, None)
            if value is not None and low and high:
                found[name] = Measure(value, low, high, n, self.basis)
        return found

    @property
    def beside(self) -> tuple[str, ...]:
        """Speedups over other baselines in words, where eager is not the one to beat."""
        by_shipped = self.fastest == Subject.SHIPPED
        found = []
        if self.over_shipped is not None and not by_shipped and self.over_shipped != self.value:
            text = _("%(speedup)s over eager as PyTorch ships")
            found.append(text % {"speedup": self._times("over_shipped")})
        if self.over_fastest is not None and self.fastest not in ("", Subject.EAGER):
            text = _("%(speedup)s over the fastest baseline, %(baseline)s")
            named = baseline_text(Subject(self.fastest))
            found.append(text % {"speedup": self._times("over_fastest"), "baseline": named})
        return tuple(found)

    def _times(self, name: str) -> str:
        """With interval and n, where they are stored: imported figures have none."""
        one = self.others.get(name)
        if one is None:
            return f"{_digits(getattr(self, name), self.basis)}×"
        return f"{one.number} {one.evidence}".strip()

    @property
    def evidence(self) -> str:
        """`[2.24–2.38] n=48`."""
        return " ".join(part for part in (self.interval, self.count) if part)

    @property
    def count(self) -> str:
        """`n=48` of a measured number, else empty."""
        return f"n={self.n}" if self.n and self.basis is Basis.MEASURED else ""

    @property
    def whole(self) -> str:
        """The text with what stands beside it, for files and commands that say `over eager` of the number."""
        return "; ".join([f"{self} over eager", *self.beside])

    def __str__(self) -> str:
        if self.error is not None:
            return f"{self.number} {self.source}, {self.interval}{claim(self.error)}"
        return " ".join(part for part in (self.number, self.interval, self.count, self.source) if part)


def beside_columns(measure: Measure) -> dict[str, Any]:
    """What stands beside a speedup, one plain value each, for files and the API; unknown is None."""
    shipped, fastest = measure.shipped_interval or [None] * 3, measure.fastest_interval or [None] * 3
    values = (measure.over_shipped, *shipped, measure.over_fastest, *fastest, measure.fastest or None)
    return dict(zip(BESIDE_COLUMNS, values, strict=True))


def basis_text(basis: Basis) -> str:
    """What must stand beside a number of this basis on a page."""
    return {
        Basis.MEASURED: _("measured"),
        Basis.MODELLED: _("MODELLED"),
        Basis.REPORTED: _("reported, not measured here"),
    }[basis]


def basis_word(basis: str) -> str:
    """How a basis is named to people and in files."""
    return "MODELLED" if basis == Basis.MODELLED else str(Basis(basis).value)


def _either(row: Any, first: str, second: str) -> Any:
    value = getattr(row, first, None)
    return getattr(row, second, None) if value is None else value


def _digits(value: float, basis: Basis) -> str:
    """Three significant digits when measured or reported, two when modelled: a model knows no more."""
    if basis is Basis.MODELLED:
        return f"{value:.0f}" if value >= 10 else f"{value:.1f}" if value >= 0.95 else f"{value:.2f}"
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 99.95 else f"{value:.2f}"


def verdict_look(verdict: str, speedup: float | None) -> str:
    """correct, slower, compile-error, suspect, cancelled or wrong; "wrong" also for none."""
    if verdict == Verdict.PASS:
        return "slower" if speedup is not None and speedup < 1 else "correct"
    return _STYLES.get(Verdict(verdict), "wrong") if verdict else "wrong"
