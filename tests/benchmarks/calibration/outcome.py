"""From counted and measured points to a calibration: constants, error, provenance, and a table to read."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from judge.bench.interpreting.calibration import Calibration, Constants, Error, calibrations
from judge.bench.interpreting.targets import target_of_gpu
from tests.benchmarks.calibration.errors import error_of, rank_correlation
from tests.benchmarks.calibration.fitting import Residual, fit, left_out, paired, residuals
from tests.benchmarks.calibration.records import Times, Traffic


@dataclass(frozen=True)
class Calibrated:
    """A calibration and what it is judged by: errors by constants set by hand, as fitted, and of what was left out."""

    calibration: Calibration
    by_hand: tuple[Residual, ...]
    fitted: tuple[Residual, ...]
    unseen: tuple[Residual, ...]  # each problem by constants that never saw it


def calibrate(
    traffic: Iterable[Traffic], times: Iterable[Times], told: Callable[[str], None] = lambda line: None
) -> Calibrated:
    """Fit all points, then once more without each problem. Raises ValueError without points, or from several GPUs."""
    pairs = paired(traffic, times)
    gpus = {(pair.times.gpu, pair.times.arch, pair.times.toolchain) for pair in pairs}
    if len(gpus) > 1:
        raise ValueError(f"these times are of several GPUs or toolchains: {sorted(gpus)}; fit one at a time")
    gpu, arch, toolchain = gpus.pop()
    target = target_of_gpu(gpu, arch)
    problems = {pair.problem for pair in pairs}
    told(f"fitting {len(pairs)} points of {len(problems)} problems, then {len(problems)} times without one of them")
    constants = fit(pairs, target)
    unseen = left_out(pairs, target, constants)
    calibration = Calibration(
        arch=arch,
        gpu=gpu,
        date=max(pair.times.date for pair in pairs),
        toolchain=toolchain,
        kernels=len({pair.traffic.id.partition("@")[0] for pair in pairs}),
        points=len(pairs),
        problems=len(problems),
        constants=constants,
        time=error_of([value for row in unseen for value in (row.candidate, row.eager)]),
        speedup=error_of(row.speedup for row in unseen),
        rank=rank_correlation(unseen),
    )
    return Calibrated(
        calibration,
        tuple(residuals(pairs, target, Constants())),
        tuple(residuals(pairs, target, constants)),
        tuple(unseen),
    )


def table(found: Calibrated) -> list[str]:
    """Lines for a terminal."""
    made = found.calibration
    lines = [
        f"{made.gpu}, {made.date}, {made.toolchain}: {made.kernels} kernels, {made.points} points, "
        f"{made.problems} problems",
        ", ".join(f"{name} {value:.3g}" for name, value in asdict(made.constants).items()),
        f"{'factor within which half / 9 of 10 are':40} {'kernel':>13} {'eager':>13} {'speedup':>13} {'rank':>6}",
    ]
    for name, rows in (("set by hand", found.by_hand), ("fitted to all", found.fitted), ("left out", found.unseen)):
        lines.append(_line(name, rows))
    by_size = defaultdict(list)
    for row in found.unseen:
        by_size[row.id.rpartition("@")[2]].append(row)
    return lines + [_line(f"left out, size {size} ({len(rows)})", rows) for size, rows in sorted(by_size.items())]


def _line(name: str, rows: Iterable[Residual]) -> str:
    rows = list(rows)
    errors = [error_of(getattr(row, what) for row in rows) for what in ("candidate", "eager", "speedup")]
    rank = rank_correlation(rows)
    return f"{name:40} {' '.join(map(_words, errors))} {'' if rank is None else f'{rank:6.2f}'}".rstrip()


def _words(error: Error) -> str:
    return f"{error.median:5.2f} / {error.ninety:5.2f}"


def keep(calibration: Calibration, path: Path) -> None:
    """Write it beside those of other architectures, in place of an older one of its own."""
    rows = {**calibrations(path), calibration.arch: calibration}
    body = [rows[arch].to_json() for arch in sorted(rows)]
    path.write_text(json.dumps(body, indent=1) + "\n", encoding="utf-8")
    calibrations.cache_clear()
