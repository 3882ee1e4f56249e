"""Intervals for a difference of two shares, for small arms, over strata. Pure.

Sources: E. B. Wilson 1927 (one share); R. G. Newcombe 1998, method 10 (difference); Yan and Su 2010 (strata);
H. Robbins 1970 and S. Howard et al. 2021 (normal mixture, for any number of looks).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import log, sqrt

Z95 = 1.959963984540054
ALPHA = 0.05
EASY = 10.0  # weight (see Arms) that the mixture is tuned to; fixed beforehand, and flat from 20 to 1,000


@dataclass(frozen=True)
class Arms:
    """Two arms of one stratum: `n` tried and `k` good in the first, `m` and `j` in the second."""

    n: int
    k: int
    m: int
    j: int

    def __post_init__(self) -> None:
        if not (0 <= self.k <= self.n and 0 <= self.j <= self.m):
            raise ValueError("an arm cannot have more good ones than it has")

    @property
    def weight(self) -> float:
        """Mantel-Haenszel: nothing from a stratum with an empty arm."""
        return self.n * self.m / (self.n + self.m) if self.n and self.m else 0.0


def wilson(good: float, n: int, z: float = Z95) -> tuple[float, float]:
    """The score interval of a share; (0, 1) without trials.

    `good` may be a sum of parts. scipy's `binomtest` gives the same for whole numbers, 2,000 times slower: a library of
    rules asks for thousands.
    """
    if n == 0:
        return 0.0, 1.0
    share = good / n
    middle = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, middle - half), min(1.0, middle + half)


def level(among: int) -> float:
    """The part of ALPHA for one of `among` differences while new ones keep coming.

    An equal share of them all would not do: the first would have had all of it, the second half, the third a third.
    The k-th is never looked at by more than level(k), and level(1) + level(2) + ... is ALPHA.
    """
    count = max(among, 1)
    return ALPHA / (count * (count + 1))


def anytime_z(weight: float, among: int = 1) -> float:
    """Standard errors away from zero at which a difference is believed, however often it is looked at.

    With `among` differences looked at so far, and more to come, the chance that chance alone ever carries one of them
    so far is 5 % at most (Robbins' mixture for the looks, `level` for the differences). `weight` is that of the arms
    together.
    """
    ratio = weight / EASY
    return sqrt((1 + 1 / ratio) * (log(1 + ratio) + 2 * log(1 / level(among))))


def difference(strata: Iterable[Arms], z: float = Z95) -> tuple[float, float, float] | None:
    """(first share less the second, low, high); None when no stratum has both arms.

    One stratum gives Newcombe's hybrid score interval; several are weighed by Mantel and Haenszel, their distances to
    the score limits put together by squares.
    """
    used = [arms for arms in strata if arms.weight]
    total = sum(arms.weight for arms in used)
    if not used:
        return None
    middle, below, above = 0.0, 0.0, 0.0
    for arms in used:
        part = arms.weight / total
        first, second = arms.k / arms.n, arms.j / arms.m
        (low_1, high_1), (low_2, high_2) = wilson(arms.k, arms.n, z), wilson(arms.j, arms.m, z)
        middle += part * (first - second)
        below += part * part * ((first - low_1) ** 2 + (high_2 - second) ** 2)
        above += part * part * ((high_1 - first) ** 2 + (second - low_2) ** 2)
    return middle, max(-1.0, middle - sqrt(below)), min(1.0, middle + sqrt(above))
