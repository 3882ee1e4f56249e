"""The command line of the calibration, without Django or a network: `count`, `measure`, `fit`."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from judge.bench.device.nvml import gpus_here
from judge.bench.interpreting.calibration import FILE
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.values import JudgeError
from tests.benchmarks.calibration.counting import count_all
from tests.benchmarks.calibration.files import LineFile
from tests.benchmarks.calibration.measuring import Machine, measure_all
from tests.benchmarks.calibration.outcome import calibrate, keep, table
from tests.benchmarks.calibration.points import Point, points
from tests.benchmarks.calibration.records import Times, Traffic, read

UNUSABLE, INTERRUPTED = 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit status: 0 when done, 2 when nothing could be done, 130 after SIGINT. The same command again goes on."""
    top = argparse.ArgumentParser(prog="python -m tests.benchmarks.calibration", description=__doc__)
    add_steps(top)
    return run(top.parse_args(arguments))


def run(options: argparse.Namespace) -> int:
    """Do the step that was asked for; returns the exit status."""
    try:
        options.step(options)
    except KeyboardInterrupt:
        say("interrupted: what was done is kept, the same command goes on from here")
        return INTERRUPTED
    except (ValueError, JudgeError) as error:
        say(str(error))
        return UNUSABLE
    except OSError as error:
        say(f"{error.filename or 'a file'}: {error.strerror}")
        return UNUSABLE
    return 0


def say(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _count(options: argparse.Namespace) -> None:
    with LineFile(options.out) as out:

        def told(point: Point, found: Traffic | str) -> None:
            if isinstance(found, Traffic):
                out.add(found.to_json())
                found = f"{found.candidate.launches} launches, eager {found.eager.launches}"
            say(f"{point.id:44} {found}")

        wanted = [point for point in points() if (point.id, point.digest) not in out.known("traffic")]
        count_all(
            wanted,
            target=options.target,
            limit_s=options.limit,
            workers=options.workers,
            told=told,
            end=_end(options.budget),
        )
        say(f"{len(out.known('traffic'))} points are counted: {options.out}")


def _measure(options: argparse.Namespace) -> None:
    end = _end(options.budget)
    machine = _machine(options.device)
    counted = {(row.id, row.digest) for row in read([options.traffic])[0]}
    chosen = [point for point in points() if (point.id, point.digest) in counted]
    number, of = options.part
    with (
        LineFile(options.out) as out,
        Bench(
            options.device,
            target=machine.arch,
            minimum_sandbox=required_layers(options.min_sandbox),
            alternatives=False,
        ) as bench,
    ):

        def told(point: Point, found: Times | str) -> None:
            if isinstance(found, Times):
                out.add(found.to_json())
                found = f"{found.candidate_us:9.1f} µs, eager {found.eager_us:9.1f} µs"
            say(f"{point.id:44} {found}")

        left = [point for point in chosen[number - 1 :: of] if (point.id, point.digest) not in out.known("times")]
        measure_all(left, bench, machine, told, end=end)
        say(f"{len(out.known('times'))} points are measured: {options.out}")


def _fit(options: argparse.Namespace) -> None:
    traffic, times = read(options.files)
    found = calibrate(traffic, times, told=say)
    for line in table(found):
        sys.stdout.write(line + "\n")
    if options.write:
        keep(found.calibration, FILE)
        say(f"written: {FILE}")


def _end(budget_s: float | None) -> float:
    return time.monotonic() + budget_s if budget_s else float("inf")


def _machine(device: str) -> Machine:
    """Raises ValueError where there is no such GPU."""
    gpus = {f"cuda:{gpu.ordinal}": gpu for gpu in gpus_here()}
    if device not in gpus:
        raise ValueError(f"there is no GPU {device!r} here; the driver lists {', '.join(gpus) or 'none'}")
    return Machine(device, gpus[device].title, gpus[device].arch, datetime.now(UTC).date().isoformat())


def _part(text: str) -> tuple[int, int]:
    number, _, of = text.partition("/")
    if not (number.isdigit() and of.isdigit() and 1 <= int(number) <= int(of)):
        raise argparse.ArgumentTypeError(f"{text!r} is no part: 2/3 is the second of three")
    return int(number), int(of)


def add_steps(top: argparse.ArgumentParser) -> None:
    """The steps and their options, for this module and for `python -m tests.benchmarks.calibration`."""
    steps = top.add_subparsers(required=True, metavar="STEP")
    count = steps.add_parser("count", help="count traffic in the interpreter; needs no GPU")
    count.add_argument("--out", required=True, type=Path, help="file of JSON lines; what it holds is not counted again")
    count.add_argument("--target", default="sm_90", help="the GPU that candidates are told they run on (sm_90)")
    count.add_argument("--limit", type=int, default=30, help="seconds after which a point is given up (30)")
    count.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 1))
    count.add_argument("--budget", type=float, help="seconds after which no further point begins")
    count.set_defaults(step=_count)
    measure = steps.add_parser("measure", help="time what was counted, on a GPU")
    measure.add_argument("--device", default="cuda:0", help="cuda:N (default cuda:0)")
    measure.add_argument("--traffic", required=True, type=Path, help="the file that count wrote: its points are timed")
    measure.add_argument("--out", required=True, type=Path, help="file of JSON lines; what it holds is not timed again")
    measure.add_argument("--part", type=_part, default=(1, 1), metavar="N/OF", help="only this part of the points")
    measure.add_argument("--budget", type=float, help="seconds after which no further point begins")
    measure.add_argument("--min-sandbox", default=os.environ.get("JUDGE_MIN_SANDBOX", "").strip() or "auto")
    measure.set_defaults(step=_measure)
    fit = steps.add_parser("fit", help="fit the constants, and tell the error of problems left out of the fit")
    fit.add_argument("files", nargs="+", type=Path, metavar="FILE", help="what count and measure wrote, in any order")
    fit.add_argument("--write", action="store_true", help=f"keep constants and error in {FILE.name}, which pages print")
    fit.set_defaults(step=_fit)
