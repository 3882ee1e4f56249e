"""The time model's constants and how wrong it is with them: fitted to times of a real GPU, kept in calibration.json.

Standard library only: pages read the error from here. `python -m tests.benchmarks.calibration fit` writes the file.
"""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

from judge.values.rebuilding import rebuilt

FILE = Path(__file__).with_name("calibration.json")
SAME = 1e-3  # of a factor: what rounding in the database and on the way to a page leaves


@dataclass(frozen=True)
class Constants:
    """Costs in microseconds, and shares of the published peaks that kernels reach; all positive.

    The defaults were set by hand with the first calibration's points in view; a fit starts from them.
    """

    call_us: float = 0.5  # once a forward
    launch_us: float = 3.5  # every launch, one behind the other on the device
    dram: float = 0.8
    l2: float = 1.2  # above one: the first-level caches take some
    vector: float = 0.2  # arithmetic element by element
    matrix: float = 0.55  # the library's products
    own_matrix: float = 0.2  # a candidate's products
    reduction: float = 0.5  # of what the library reaches element by element: its sums, maxima, norms
    irregular: float = 0.2  # the same for its scans, sorts, gathers, scatters
    irregular_us: float = 8.0  # what such a call costs beyond a launch: it is several kernels, or one that waits
    latency_us: float = 0.5  # of one access of a program, the next one waiting for it
    resident: float = 0.0  # launches after the first whose bytes fit this share of the L2 find them there

    def __post_init__(self) -> None:
        if any(value <= 0 for name, value in asdict(self).items() if name != "resident") or self.resident < 0:
            raise ValueError("the constants of a time model are positive")


@dataclass(frozen=True)
class Error:
    """How far modelled numbers are from measured ones, as factors: half of them within `median`, 9 of 10 `ninety`."""

    median: float
    ninety: float

    def __post_init__(self) -> None:
        if not 1.0 <= self.median <= self.ninety:
            raise ValueError("an error factor is at least 1, the 90th percentile no less than the median")


@dataclass(frozen=True)
class Calibration:
    """One fit with where it comes from. Errors are of problems that were left out of the fit."""

    arch: str  # "sm_90"
    gpu: str
    date: str
    toolchain: str
    kernels: int  # candidates, each at one or more sizes
    points: int
    problems: int
    constants: Constants
    time: Error
    speedup: Error
    rank: float | None = None  # mean rank correlation of candidates of one problem and size; None: too few to tell

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


@dataclass(frozen=True)
class Model:
    """What is modelled for one architecture: constants, and the factors that times and speedups are within.

    `calibration` is None where nothing was ever calibrated; `here` tells whether it was this very architecture.
    """

    constants: Constants
    time: float
    speedup: float
    calibration: Calibration | None
    here: bool

    @property
    def name(self) -> str:
        """Tells numbers of this model from those of another."""
        if self.calibration is None:
            return "model assumed"
        text = json.dumps([asdict(self.constants), self.time, self.speedup])
        return f"model {self.calibration.date} {hashlib.sha256(text.encode()).hexdigest()[:6]}"

    @property
    def sentence(self) -> str:
        """How wrong modelled numbers may be, and how that is known."""
        found = self.calibration
        if found is None:
            return f"The model was never calibrated: a factor of {self.speedup:.1f} either way is assumed."
        half, most, times = (_up(value) for value in (found.speedup.median, found.speedup.ninety, found.time.ninety))
        errors = f"speedups were within a factor of {most:.1f} for 9 of 10 kernels and {half:.1f} for half of them"
        errors += f", times within {times:.1f} for 9 of 10 ({found.points} timed on an {found.gpu}, {found.date})"
        if self.here:
            return f"Modelled {errors}."
        return (
            f"Never calibrated for this GPU. On {found.arch} {errors}; "
            f"{self.speedup:.1f} and {self.time:.1f} are assumed here."
        )


ASSUMED_FACTOR = 2.5  # of times and speedups while nothing was ever calibrated


def factor(value: float) -> str:
    """`1.4×`."""
    return f"{value:.1f}×"


def _up(value: float) -> float:
    """To the next tenth, as it is printed: printing an error makes it no smaller."""
    return math.ceil(round(value * 10, 6)) / 10


def claim(error: float, known: dict[str, Calibration] | None = None) -> str:
    """What is known of a stored speedup's factor: whether a calibration on file found it, or stands behind a guess."""
    for row in (calibrations() if known is None else known).values():
        if math.isclose(error, _up(row.speedup.ninety), rel_tol=SAME):
            return " for 9 of 10 kernels"
        if math.isclose(error, _foreign(row.speedup), rel_tol=SAME):
            return ", assumed: never calibrated for this GPU"
    return ""


def _foreign(error: Error) -> float:
    """Of a GPU that nobody timed: twice as a power, once for the model and once for the GPU, which is an assumption."""
    return _up(error.ninety**2)


@cache
def calibrations(path: Path = FILE) -> dict[str, Calibration]:
    """By architecture; empty without the file. Raises ValueError when it is malformed."""
    try:
        body = json.loads(path.read_text(encoding="utf-8"))
        return {row["arch"]: rebuilt(Calibration, row) for row in body}
    except FileNotFoundError:
        return {}
    except (KeyError, TypeError) as error:
        raise ValueError(f"{path.name}: {error}") from error


def model_for(arch: str, known: dict[str, Calibration] | None = None) -> Model:
    """The model of an architecture. One that was never calibrated takes another's constants and a wider error."""
    known = calibrations() if known is None else known
    found = known.get(arch)
    if found is not None:
        return Model(found.constants, _up(found.time.ninety), _up(found.speedup.ninety), found, here=True)
    nearest = known[min(known, key=lambda name: abs(_number(name) - _number(arch)))] if known else None
    if nearest is None:
        return Model(Constants(), ASSUMED_FACTOR, ASSUMED_FACTOR, None, here=False)
    return Model(nearest.constants, _foreign(nearest.time), _foreign(nearest.speedup), nearest, here=False)


def _number(arch: str) -> int:
    digits = arch.removeprefix("sm_")
    return int(digits) if digits.isdigit() else 0
