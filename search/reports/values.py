"""What a report is made of: frozen values that say nothing about where they come from. No Django."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from judge.evaluations.measures import Measure, basis_text
from judge.values import Basis
from search.algorithm.ranking import rank

EAGER, SHIPPED, COMPILE, FASTEST = "eager", "shipped", "compile", "fastest"
OVER = {
    EAGER: "eager",
    SHIPPED: "eager as PyTorch ships",
    COMPILE: "torch.compile",
    FASTEST: "the fastest baseline",
}
BEST, MEAN = "best", "mean"
RULES = {BEST: "the best search of a problem counts", MEAN: "the mean over a problem's searches counts"}


@dataclass(frozen=True)
class Ratio:
    """A speedup with its interval and sample count, None where unknown."""

    value: float
    low: float | None = None
    high: float | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        if not (math.isfinite(self.value) and self.value > 0):
            raise ValueError("a speedup is finite and positive")


def _parts(ratio: Ratio | None) -> tuple[float | None, tuple[float | int | None, ...] | None]:
    """(value, (low, high, n)); Nones without a ratio."""
    return (None, None) if ratio is None else (ratio.value, (ratio.low, ratio.high, ratio.n))


@dataclass(frozen=True)
class Kernel:
    """One correct kernel of a search; a ratio is None where it was not timed against that baseline. `named` is the
    fastest one there is a time of, eager included."""

    number: int
    order: int  # place in the order in which nodes were completed, from 1
    audited: bool
    eager: Ratio | None
    compile: Ratio | None = None
    shipped: Ratio | None = None
    fastest: Ratio | None = None
    named: str = ""
    beats: bool = False  # faster than every baseline it was timed beside
    won: bool = False  # that, and audited

    def rank(self, number: int) -> tuple[bool, float, int]:
        """Key to compare by: those that beat PyTorch first, then by speedup over eager, then by `number`."""
        return (self.beats, *rank(self.eager.value if self.eager else None, number))

    def over(self, baseline: str) -> Ratio | None:
        """The speedup over one of OVER."""
        return {EAGER: self.eager, SHIPPED: self.shipped, COMPILE: self.compile, FASTEST: self.fastest}[baseline]


@dataclass(frozen=True)
class Outcome:
    """One search: its correct kernels in the order in which they were completed, and how many nodes were."""

    run: int
    problem: int
    told: int
    kernels: tuple[Kernel, ...]

    def best(self, *, audited: bool) -> Kernel | None:
        """The kernel that ranks highest of those that beat PyTorch, else of all. None without a correct one."""
        found = [kernel for kernel in self.kernels if kernel.audited or not audited]
        return max(found, key=lambda one: one.rank(one.number), default=None)


@dataclass(frozen=True)
class Score:
    """What one search counts for: 0 without a correct kernel, None where it is correct but its speed is unknown."""

    correct: bool
    speedup: float | None

    def __post_init__(self) -> None:
        if not self.correct and self.speedup != 0.0:
            raise ValueError("a failure counts as 0")


@dataclass(frozen=True)
class Figure:
    """One aggregate over problems: its value, a 95 % interval and how many problems are in it."""

    metric: str
    label: str
    value: float | None  # None over no problem
    low: float | None
    high: float | None
    n: int
    basis: Basis
    share: bool = False  # of problems, from 0 to 1

    @property
    def number(self) -> str:
        """`2.31×`, `60 %`, or a dash."""
        return "—" if self.value is None else self._shown(self.value)

    @property
    def interval(self) -> str:
        """`[1.20–3.40]`; empty where there is none."""
        if self.low is None or self.high is None:
            return ""
        return f"[{self._shown(self.low).rstrip('×% ')}–{self._shown(self.high).rstrip('×% ')}]"

    @property
    def source(self) -> str:
        """Where the speedups behind it come from."""
        return basis_text(self.basis)

    def _shown(self, value: float) -> str:
        return f"{100 * value:.0f} %" if self.share else Measure(value, value, value, self.n, self.basis).number

    def __str__(self) -> str:
        return " ".join(part for part in (self.number, self.interval, f"n={self.n}", self.source) if part)


@dataclass(frozen=True)
class Line:
    """One problem in a block: which search and kernel counts, or that none is correct."""

    slug: str
    title: str
    runs: tuple[int, ...]
    run: int | None
    number: int | None
    speedup: Ratio | None
    compile: Ratio | None
    audited: bool
    correct_runs: int
    basis: Basis
    won: bool = False  # whether that kernel beat PyTorch; see Kernel.won
    shipped: Ratio | None = None
    fastest: Ratio | None = None
    named: str = ""  # the fastest baseline
    numerics: str = "strict"  # of the problem

    @property
    def measure(self) -> Measure | None:
        """The speedup over eager as pages print it, with what stands beside it."""
        found = self._measure(self.speedup)
        if found is None:
            return None
        (shipped, shipped_range), (fastest, fastest_range) = map(_parts, (self.shipped, self.fastest))
        return replace(
            found,
            over_shipped=shipped,
            over_fastest=fastest,
            fastest=self.named,
            shipped_interval=shipped_range,
            fastest_interval=fastest_range,
        )

    @property
    def measure_compile(self) -> Measure | None:
        """The same over torch.compile."""
        return self._measure(self.compile)

    def _measure(self, ratio: Ratio | None) -> Measure | None:
        if ratio is None or (self.basis is not Basis.REPORTED and (ratio.low is None or ratio.high is None)):
            return None
        return Measure(ratio.value, ratio.low, ratio.high, ratio.n, self.basis)


@dataclass(frozen=True)
class Table:
    """Aggregates of one population over one baseline. `unknown` problems are correct, but were not timed against it."""

    population: str  # "judged" or "audited"
    over: str
    figures: tuple[Figure, ...]
    unknown: int
    timed: bool  # whether any kernel was timed against it


@dataclass(frozen=True)
class Block:
    """Everything of one device and basis. Degenerate problems are named and left out of all figures."""

    basis: Basis
    device: str
    device_title: str
    lines: tuple[Line, ...]
    degenerate: tuple[tuple[str, str], ...]  # slug and title
    runs: int
    unended: int  # searches that have not ended: they count as they stand
    unbegun: int  # those of them without a completed node: they are in no figure
    tables: tuple[Table, ...]
    provisional_only: int  # problems whose only correct kernels were not audited
    provisional_faster: int  # problems with an audited best and a faster kernel that was not audited
    curve: tuple[tuple[int, float], ...]  # steps told, mean over problems of min(best so far, 10)
    shares: dict[str, tuple[tuple[float, float], ...]] = field(default_factory=dict)  # population -> (p, Fast@p)
    elsewhere: bool = False  # of imported searches: nothing of it was judged or audited here


@dataclass(frozen=True)
class Report:
    """Blocks by basis and device; never one number over two of them."""

    title: str
    rule: str
    unassisted: bool
    assisted_runs: int | None  # left out, because `unassisted`; else None, since they were not counted
    assisted_nodes: int | None
    blocks: tuple[Block, ...]
    seed: int
    resamples: int

    def __post_init__(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, not {self.rule!r}")
