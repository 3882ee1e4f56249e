"""Spaces of candidates with known speedups: what a simulated search walks in, and a reader of timed ones."""

from __future__ import annotations

import gzip
import json
import math
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
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
