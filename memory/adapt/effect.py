"""Whether memory helped: the same tasks and seeds searched with it and without. Pure.

A pair is one task. Its first attempts are made from the same seed, problem and parameters; only the rules differ. A
task is held out: what memory knew when it began came from earlier tasks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from statistics import NormalDist
from typing import Any

import numpy as np

Z95 = NormalDist().inv_cdf(0.975)
WINDOW = 20  # tasks of one point of the curve
RESAMPLES = 2000
HELPS, HARMS, NOTHING_SHOWN, NOTHING_YET = "memory helps", "memory harms", "no effect shown", "nothing to compare yet"
NOT_DECIDED = "not decided before its end"


@dataclass(frozen=True)
class Arm:
    """The attempts of one search in order of their numbers: True passed, False did not, None does not count."""

    attempts: tuple[bool | None, ...] = ()

    @property
    def first(self) -> bool | None:
        """Whether the first attempt passed; None when there is none yet, or it was not the candidate's doing."""
        return self.attempts[0] if self.attempts else None

    def upto(self, k: int) -> tuple[bool, ...] | None:
        """The first k attempts; None unless all of them count."""
        counted = [one for one in self.attempts[:k] if one is not None]
        return tuple(counted) if k and len(counted) == k else None


@dataclass(frozen=True)
class Outcome:
    """One attempted task. `rules` were in force when its search with memory began."""

    place: int
    name: str
    rules: int
    shown: Arm
    control: Arm


@dataclass(frozen=True)
class Share:
    """Passed of n with Wilson's 95 % interval. Nones when n is 0."""

    passed: int
    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class Difference:
    """With memory less without, over n pairs, with its 95 % interval. Nones when n is 0.

    `only_with` pairs passed with memory alone, `only_without` without it alone; `p` is McNemar's exact one, None where
    pairs are not yes or no.
    """

    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None
    only_with: int | None = None
    only_without: int | None = None
    p: float | None = None

    @property
    def verdict(self) -> str:
        """By the interval alone."""
        if self.low is None or self.high is None:
            return NOTHING_YET
        return HELPS if self.low > 0 else HARMS if self.high < 0 else NOTHING_SHOWN


@dataclass(frozen=True)
class Point:
    """The curve at one task: shares over the last WINDOW pairs up to it, of both arms."""

    place: int
    n: int
    shown: Share
    control: Share


@dataclass(frozen=True)
class Effect:
    """All that is compared. `k` attempts of both arms; `left_out` tasks have no pair of first attempts that counts.

    `final`: the run has finished, so the moment was not chosen by what was seen so far.
    """

    tasks: int
    left_out: int
    k: int
    pass_1: tuple[Share, Share]  # with, without: over the pairs
    first: Difference
    first_with_rules: Difference  # only where some rule was in force
    pass_1_with_rules: tuple[Share, Share]
    valid_k: Difference
    best_k: Difference
    best_k_shares: tuple[Share, Share]
    curve: tuple[Point, ...]
    final: bool = True

    @property
    def verdict(self) -> str:
        """Of the first attempts of all pairs: the comparison that was fixed beforehand, made once.

        A 95 % interval keeps its level for one look. Looking after every task, and stopping at a good moment, finds an
        effect that does not exist in one run out of five.
        """
        return self.first.verdict if self.final or not self.first.n else NOT_DECIDED

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types."""
        return {**asdict(self), "verdict": self.verdict, "window": WINDOW, "interval": 0.95}


def effect_of(outcomes: Sequence[Outcome], *, k: int, final: bool = True) -> Effect:
    """What memory did, over these tasks in order of their places."""
    ordered = sorted(outcomes, key=lambda one: one.place)
    pairs = [one for one in ordered if one.shown.first is not None and one.control.first is not None]
    firsts = [(bool(one.shown.first), bool(one.control.first)) for one in pairs]
    with_rules = [pair for pair, one in zip(firsts, pairs, strict=True) if one.rules]
    several = [(one.shown.upto(k), one.control.upto(k)) for one in ordered]
    longer = [(shown, control) for shown, control in several if shown is not None and control is not None]
    bests = [(any(shown), any(control)) for shown, control in longer]
    return Effect(
        tasks=len(ordered),
        left_out=len(ordered) - len(pairs),
        k=k,
        pass_1=_shares(firsts),
        first=paired(firsts),
        first_with_rules=paired(with_rules),
        pass_1_with_rules=_shares(with_rules),
        valid_k=mean_paired([(sum(shown) - sum(control)) / k for shown, control in longer]),
        best_k=paired(bests),
        best_k_shares=_shares(bests),
        curve=_curve(pairs, firsts),
        final=final,
    )


@lru_cache(maxsize=4096)  # the curve asks for the same few again and again
def share(passed: int, n: int) -> Share:
    """Wilson's score interval."""
    if n == 0:
        return Share(0, 0)
    from scipy import stats  # takes a second to import, which a web process need not pay at its start

    low, high = map(float, stats.binomtest(passed, n).proportion_ci(0.95, method="wilson"))
    return Share(passed, n, passed / n, min(low, passed / n), max(high, passed / n))


def paired(pairs: Sequence[tuple[bool, bool]]) -> Difference:
    """Difference of two paired shares with Bonett and Price's interval (2012), which keeps its level for few pairs."""
    n = len(pairs)
    if n == 0:
        return Difference(0)
    more = sum(one and not other for one, other in pairs)
    less = sum(other and not one for one, other in pairs)
    up, down = (more + 1) / (n + 2), (less + 1) / (n + 2)
    half = Z95 * math.sqrt((up + down - (up - down) ** 2) / (n + 2))
    value = (more - less) / n
    low, high = max(up - down - half, -1.0), min(up - down + half, 1.0)
    return Difference(n, value, min(low, value), max(high, value), more, less, mcnemar(more, less))


def mcnemar(more: int, less: int) -> float:
    """Exact two-sided p: how likely so uneven a split of the pairs that differ is when memory does nothing."""
    if not more + less:
        return 1.0
    from scipy import stats  # see share

    return float(stats.binomtest(more, more + less).pvalue)


def mean_paired(differences: Sequence[float]) -> Difference:
    """Mean of differences, one of each pair, with a bootstrap interval over pairs; the same at every call.

    Pairs that are all equal give no spread to draw from: the interval is then that of so many equal pairs that may yet
    differ (3 / n, the rule of three).
    """
    n = len(differences)
    if n == 0:
        return Difference(0)
    mean = sum(differences) / n
    if len(set(differences)) == 1:
        least = min(3 / n, 1.0)
        return Difference(n, mean, max(mean - least, -1.0), min(mean + least, 1.0))
    from scipy import stats  # see share

    rng = np.random.default_rng(n)
    found = stats.bootstrap((differences,), np.mean, n_resamples=RESAMPLES, method="percentile", rng=rng)
    low, high = map(float, found.confidence_interval)
    return Difference(n, mean, min(low, mean), max(high, mean))


def _shares(pairs: Sequence[tuple[bool, bool]]) -> tuple[Share, Share]:
    return share(sum(one for one, _ in pairs), len(pairs)), share(sum(other for _, other in pairs), len(pairs))


def _curve(pairs: Sequence[Outcome], firsts: Sequence[tuple[bool, bool]]) -> tuple[Point, ...]:
    points = []
    for number, one in enumerate(pairs, start=1):
        last = firsts[max(number - WINDOW, 0) : number]
        shown, control = _shares(last)
        points.append(Point(one.place, len(last), shown, control))
    return tuple(points)


@dataclass(frozen=True)
class Line:
    """One arm: `kind` is its CSS class, `path` its share, `band` its interval."""

    kind: str
    label: str
    path: str
    band: str


@dataclass(frozen=True)
class Mark:
    """A labelled place on an axis."""

    at: float
    label: str


@dataclass(frozen=True)
class Curve:
    """Both arms over the tasks, and one sentence for those who do not see them."""

    lines: tuple[Line, ...]
    x_marks: tuple[Mark, ...]
    y_marks: tuple[Mark, ...]
    says: str


def curve_of(effect: Effect) -> Curve | None:
    """None with fewer than two pairs: a point is no curve."""
    points = effect.curve
    if len(points) < 2:
        return None
    lines = (
        _line("control", "without memory", points, [point.control for point in points]),
        _line("shown", "with memory", points, [point.shown for point in points]),
    )
    first, last = points[0].place, points[-1].place
    x_marks = tuple(Mark(100.0 * part, str(round(first + part * (last - first)))) for part in (0.0, 0.5, 1.0))
    y_marks = tuple(Mark(round(100 * (1 - part), 1), f"{part:.0%}") for part in (0.0, 0.5, 1.0))
    shown, control = points[-1].shown.value or 0.0, points[-1].control.value or 0.0
    says = (
        f"Share of first attempts that pass over the last {points[-1].n} tasks: it ends at {shown:.0%} with memory and "
        f"{control:.0%} without."
    )
    return Curve(lines, x_marks, y_marks, says)


def _line(kind: str, label: str, points: Sequence[Point], shares: Sequence[Share]) -> Line:
    first, last = points[0].place, points[-1].place
    places = [100 * (point.place - first) / (last - first) for point in points]
    middle = [(x, one.value or 0.0) for x, one in zip(places, shares, strict=True)]
    low = [(x, one.low or 0.0) for x, one in zip(places, shares, strict=True)]
    high = [(x, one.high or 0.0) for x, one in zip(places, shares, strict=True)]
    return Line(kind, label, f"M{_path(middle)}", f"M{_path(high)}L{_path(low[::-1])}Z")


def _path(points: Sequence[tuple[float, float]]) -> str:
    return "L".join(f"{x:.2f} {100 - 100 * share:.2f}" for x, share in points)
