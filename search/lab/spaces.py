"""Spaces of candidates with known speedups, bundled and read from files, and how a simulated proposer moves in them."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from statistics import median
from typing import Any, NamedTuple

Config = tuple[int, ...]  # per parameter the place of its value
MAX_BYTES = 512 * 2**20  # of an unpacked file
_KNOWN_FAILURES = {"compile": False, "runtime": True, "correctness": True}  # kind of invalidity: whether it loads


class Outcome(NamedTuple):
    """What judging a candidate comes to. `speedup` is None unless it is correct."""

    loads: bool
    speedup: float | None = None


REFUSED = Outcome(False)


@dataclass(frozen=True)
class Listed:
    """The outcomes of a list; what is not on it was ruled out before it was compiled and does not load."""

    known: Mapping[Config, Outcome]

    def __call__(self, config: Config) -> Outcome:
        return self.known.get(config, REFUSED)


@dataclass(frozen=True)
class Space:
    """`sizes` holds the number of values of each parameter, `optimum` the highest speedup there is.

    `cells` are the two parameters that make up the grid of `map_elites`: those with the fewest values.
    `outcome` answers for any configuration of these sizes.
    """

    name: str
    sizes: tuple[int, ...]
    optimum: float
    outcome: Callable[[Config], Outcome]

    def __post_init__(self) -> None:
        if not self.sizes or min(self.sizes) < 2:
            raise ValueError(f"{self.name}: a space needs parameters with two values or more")
        if not 0 < self.optimum < math.inf:
            raise ValueError(f"{self.name}: the optimum must be a positive speedup, not {self.optimum}")

    @property
    def cells(self) -> tuple[int, ...]:
        places = range(len(self.sizes))
        return tuple(sorted(places, key=lambda place: (self.sizes[place], place))[:2])


class SpaceRejected(ValueError):
    """The file is no space; the message says why."""


def read_space(path: Path) -> Space:
    """A Kernel Tuner T4 cache (JSON, may be gzipped). Parameters with one value are left out.

    The reference is the median time of all correct configurations: a speedup says how far a configuration lies above
    the middle of its space, and nothing about an implementation outside it. Raises SpaceRejected, or OSError when there
    is no file.
    """
    try:
        results = _results(_unpacked(path))
        rows = [_row(result) for result in results]
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise SpaceRejected(f"{path.name} is not a Kernel Tuner T4 cache: {error!r}") from error
    names = sorted(rows[0][0])
    values = {name: sorted({row[0][name] for row in rows}, key=_by_value) for name in names}
    names = [name for name in names if len(values[name]) > 1]
    times = [time for _, _, time in rows if time is not None]
    if not times or not names:
        raise SpaceRejected(f"{path.name} holds no correct configuration, or only one.")
    middle, places = median(times), {name: {value: at for at, value in enumerate(values[name])} for name in names}
    known = {
        tuple(places[name][config[name]] for name in names): Outcome(loads, None if time is None else middle / time)
        for config, loads, time in rows
    }
    title = path.name.removesuffix(".gz").removesuffix(".json").removesuffix("_T4")
    sizes = tuple(len(values[name]) for name in names)
    return Space(title, sizes, middle / min(times), Listed(known))


def _unpacked(path: Path) -> bytes:
    if path.suffix != ".gz":
        return path.read_bytes()
    with gzip.open(path) as file:
        try:
            data = file.read(MAX_BYTES + 1)
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise SpaceRejected(f"{path.name} is not a whole gzip file.") from error
    if len(data) > MAX_BYTES:
        raise SpaceRejected(f"{path.name} holds more than {MAX_BYTES >> 20} MiB.")
    return data


def _results(data: bytes) -> list[Mapping[str, Any]]:
    results = json.loads(data)["results"]
    if not isinstance(results, list) or not results:
        raise ValueError("no results")
    return results


def _row(result: Mapping[str, Any]) -> tuple[Mapping[str, Any], bool, float | None]:
    """Configuration, whether it loads, and its time; None when it is not correct."""
    config, fault = result["configuration"], result["invalidity"]
    if fault != "correct":
        return config, _KNOWN_FAILURES.get(fault, True), None
    time = float(result["measurements"][0]["value"])
    if not 0 < time < math.inf:
        raise ValueError(f"a time of {time}")
    return config, True, time


def _by_value(value: Any) -> tuple[int, Any]:
    """Numbers by size, then words."""
    return (0, value) if isinstance(value, int | float) else (1, str(value))


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


MOST_MUTATIONS = 3


def small_step(space: Space, config: Config, rng: Random) -> Config:
    """One or two parameters take another value."""
    return _mutated(space, config, min(rng.randint(1, 2), len(config)), rng)


def large_step(space: Space, pool: Sequence[Config], rng: Random) -> Config:
    """Half of the time, and without a pool always, uniform over all values; else each parameter from some kernel of the
    pool, then up to three parameters take another value."""
    if not pool or rng.random() < 0.5:
        return tuple(rng.randrange(size) for size in space.sizes)
    mixed = tuple(rng.choice(pool)[place] for place in range(len(space.sizes)))
    return _mutated(space, mixed, min(rng.randint(0, MOST_MUTATIONS), len(mixed)), rng)


def _mutated(space: Space, config: Config, count: int, rng: Random) -> Config:
    changed = list(config)
    for place in rng.sample(range(len(config)), count):
        other = rng.randrange(space.sizes[place] - 1)
        changed[place] = other if other < config[place] else other + 1
    return tuple(changed)
