"""The values that travel between the steps, one JSON object a line: traffic counted, times measured.

Lines may be cut off at the end of a file and files may be put one behind the other.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport
from tests.benchmarks.calibration.points import Point


@dataclass(frozen=True)
class Traffic:
    """What one point moves and computes, launch by launch, candidate and eager."""

    id: str
    digest: str
    problem: str
    target: str
    candidate: TrafficReport
    eager: TrafficReport

    def __post_init__(self) -> None:
        if not self.candidate.kernels or not self.eager.kernels:
            raise ValueError(f"{self.id}: nothing was launched, so there is no time to model")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "traffic", **asdict(self), "candidate": _rows(self.candidate), "eager": _rows(self.eager)}


@dataclass(frozen=True)
class Times:
    """What one point took on a GPU: medians in microseconds of candidate and eager, side by side."""

    id: str
    digest: str
    candidate_us: float
    eager_us: float
    n: int
    gpu: str
    arch: str
    toolchain: str
    date: str

    def __post_init__(self) -> None:
        if not all(math.isfinite(us) and us > 0 for us in (self.candidate_us, self.eager_us)):
            raise ValueError(f"{self.id}: times must be finite and positive")

    def to_json(self) -> dict[str, Any]:
        return {"kind": "times", **asdict(self)}


def traffic_of(point: Point, target: str, answer: Mapping[str, Any]) -> Traffic:
    """From the counting process's answer. Raises ValueError when nothing was launched."""
    return Traffic(
        point.id, point.digest, point.problem, target, _report(answer["candidate"]), _report(answer["eager"])
    )


def read(paths: Iterable[Path]) -> tuple[list[Traffic], list[Times]]:
    """Every whole line of the files; the last about a point counts. Raises ValueError naming a line that is none."""
    traffic: dict[str, Traffic] = {}
    times: dict[str, Times] = {}
    for path in paths:
        for number, body in lines(path):
            kind = body.pop("kind", None)
            try:
                if kind == "traffic":
                    reports = {key: _report(body[key]) for key in ("candidate", "eager")}
                    traffic[body["id"]] = Traffic(**{**body, **reports})
                elif kind == "times":
                    times[body["id"]] = Times(**body)
            except (KeyError, TypeError) as error:
                raise ValueError(f"{path}, line {number}: {error}") from error
    return list(traffic.values()), list(times.values())


def lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Number and object of each line. Raises ValueError naming a line that is no JSON."""
    text = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(text, start=1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except ValueError as error:
            if number == len(text):
                return  # a writer was stopped in the middle of it
            raise ValueError(f"{path}, line {number}: no JSON") from error
        if isinstance(body, dict):
            yield number, body


def _rows(report: TrafficReport) -> list[dict[str, Any]]:
    return [asdict(row) for row in report.kernels]


def _report(rows: Iterable[Mapping[str, Any]]) -> TrafficReport:
    return TrafficReport(tuple(LaunchTraffic(**row) for row in rows))
