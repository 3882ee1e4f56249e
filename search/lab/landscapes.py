"""Synthetic spaces with a known optimum, each hard in one way: neutral plateaus, deceptive traps, holes in validity."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from search.lab.spaces import REFUSED, Config, Outcome, Space

SLOWEST, FASTEST = 0.5, 8.0  # speedups at the worst and the best point
_FORBIDDEN = 0.08  # share of the pairs of neighbouring values that do not compile: about half of all points


def _speedup(share: float) -> float:
    """From the slowest to the fastest in even factors as `share` goes from 0 to 1."""
    return float(SLOWEST * (FASTEST / SLOWEST) ** share)


@dataclass(frozen=True)
class Plateaus:
    """Only every second right value shows: most small steps change nothing."""

    target: Config

    def __call__(self, config: Config) -> Outcome:
        right = sum(mine == wanted for mine, wanted in zip(config, self.target, strict=True))
        return Outcome(True, _speedup(right // 2 / (len(self.target) // 2)))


@dataclass(frozen=True)
class Traps:
    """Pairs of parameters that are best when both are right, and else the better the further both are from right."""

    target: Config
    sizes: tuple[int, ...]

    def __call__(self, config: Config) -> Outcome:
        pairs = [self._pair(config, place) for place in range(0, len(config), 2)]
        return Outcome(True, _speedup(sum(pairs) / len(pairs)))

    def _pair(self, config: Config, place: int) -> float:
        away = sum(self._away(config, at) for at in (place, place + 1)) / 2
        return 1.0 if away == 0 else 0.75 * away

    def _away(self, config: Config, at: int) -> float:
        """Distance on the ring of values, 0 to 1."""
        gap = abs(config[at] - self.target[at])
        return min(gap, self.sizes[at] - gap) / (self.sizes[at] // 2)


@dataclass(frozen=True)
class Holes:
    """Smooth, but about half of the points do not compile: those with a forbidden pair of neighbouring values."""

    target: Config
    sizes: tuple[int, ...]
    forbidden: frozenset[tuple[int, int, int]]  # place, its value, the next parameter's value

    def __call__(self, config: Config) -> Outcome:
        if any((place, config[place], config[place + 1]) in self.forbidden for place in range(len(config) - 1)):
            return REFUSED
        away = sum(abs(mine - wanted) for mine, wanted in zip(config, self.target, strict=True))
        return Outcome(True, _speedup(1 - away / sum(size - 1 for size in self.sizes)))


def synthetic_spaces() -> tuple[Space, ...]:
    """The bundled landscapes: eight parameters of five or six values each, the same at every call."""
    six, five = (6,) * 8, (5,) * 8
    return (
        Space("synthetic plateaus", six, FASTEST, Plateaus(_target("plateaus", six))),
        Space("synthetic traps", five, FASTEST, Traps(_target("traps", five), five)),
        Space("synthetic holes", six, FASTEST, _holes(six)),
    )


def _target(name: str, sizes: tuple[int, ...]) -> Config:
    rng = Random(f"target of {name}")
    return tuple(rng.randrange(size) for size in sizes)


def _holes(sizes: tuple[int, ...]) -> Holes:
    target, rng = _target("holes", sizes), Random("holes")
    forbidden = {
        (place, mine, other)
        for place in range(len(sizes) - 1)
        for mine in range(sizes[place])
        for other in range(sizes[place + 1])
        if rng.random() < _FORBIDDEN and (mine, other) != (target[place], target[place + 1])
    }
    return Holes(target, sizes, frozenset(forbidden))
