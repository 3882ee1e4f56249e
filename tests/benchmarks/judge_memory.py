"""Whether large problems are admitted, judged and timed, and what memory that takes: `judge_memory`."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.bench.runner import Bench
from judge.doctor.examine import device_names
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec
from judge.values.units import gib
from tests.benchmarks.large_problems import Large, large_problems

LIMITS = Limits(wall_s=60.0, stage_s=30.0)


class Command(BaseCommand):
    help = (
        "Preflight of problems with tensors of up to 10 GB, and an evaluation of a right candidate with times. Reports "
        "why a problem is refused, and the peak of every process beside the judge's plan. On an H200 "
        "six of the largest took 6 to 23 s each, 71 s together; all 67 have not been run: give --budget. Without a GPU "
        "try --device interpreter --scale 0.0001 --only swish-10 sum-rows-10, which takes a minute."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", default="cuda:0", help="cuda:N (default cuda:0), or interpreter")
        parser.add_argument(
            "--scale",
            type=float,
            default=1.0,
            help="all sizes times this; images and volumes of less than one sample are refused as empty (1)",
        )
        parser.add_argument("--only", nargs="*", default=[], help="names, or beginnings of names")
        parser.add_argument("--first", type=int, help="only so many of them")
        parser.add_argument("--budget", type=float, default=math.inf, help="seconds after which no further one begins")
        parser.add_argument("--json", type=Path, help="write the rows into this file after every problem")
        parser.add_argument("--list", action="store_true", help="print the names and end")

    def handle(self, *args: Any, **options: Any) -> None:
        named = [one for one in large_problems().values() if _is_chosen(one, options["only"])][: options["first"]]
        chosen = [replace(one, size_gb=one.size_gb * options["scale"]) for one in named]
        if options["list"]:
            self.stdout.write("\n".join(f"{one.name:22} {one.group}" for one in chosen))
            return
        if options["device"] not in device_names():
            raise CommandError(f"There is no device {options['device']!r} here. Known: {', '.join(device_names())}.")
        end, rows = time.monotonic() + options["budget"], []
        with Bench(options["device"], alternatives=False) as bench:
            for one in chosen:
                if time.monotonic() > end:
                    break
                row = examined(bench, one)
                rows.append(row)
                self.stdout.write(line(row))
                self.stdout.flush()
                if options["json"]:
                    options["json"].write_text(json.dumps(rows, indent=1))
        passed = sum(row.get("verdict") == "pass" for row in rows)
        admitted = sum(row.get("state") in ("admitted", "degenerate") for row in rows)
        self.stdout.write(f"{len(rows)} of {len(chosen)} examined: {admitted} admitted, {passed} passed")


def _is_chosen(one: Large, names: list[str]) -> bool:
    return not names or any(one.name == name or one.name.startswith(f"{name}-") for name in names)


def examined(bench: Bench, one: Large) -> dict[str, Any]:
    """Preflight and evaluation of one problem; what the bench itself failed at under `fault`."""
    problem, started = ProblemSpec(one.source), time.monotonic()
    row: dict[str, Any] = {"name": one.name, "group": one.group, "size_gb": one.size_gb}
    try:
        report = bench.admit(problem, limits=LIMITS)
        skipped = {stage.name: stage.detail for stage in report.stages if stage.state in ("skipped", "warned")}
        row |= {"state": report.state, "why": report.message, "skipped": skipped}
        row["admit_s"] = round(time.monotonic() - started, 2)
        started = time.monotonic()
        outcome = bench.evaluate(Job(one.name, problem, one.candidate, limits=LIMITS, beat=math.inf))
        row |= judged(outcome)
    except JudgeError as error:
        row["fault"] = str(error)
    row["judge_s"] = round(time.monotonic() - started, 2)
    return row


def judged(outcome: Outcome) -> dict[str, Any]:
    """What an outcome says of a candidate and of memory."""
    speedup = outcome.speedup
    return {
        "verdict": outcome.verdict.value,
        "reason": outcome.reason,
        "message": outcome.message,
        "left_out": [f"{case.family}: {case.detail}" for case in outcome.cases if case.detail.startswith("left out")],
        "n": outcome.timings[0].n if outcome.timings else 0,
        "median_us": outcome.timings[0].median_us if outcome.timings else None,
        "speedup": [speedup.value, speedup.low, speedup.high] if speedup else None,
        "stages": {stage.name: round(stage.wall_ms) for stage in outcome.stages},
        "memory": outcome.environment.get("memory"),
    }


def line(row: dict[str, Any]) -> str:
    """One row as a person reads it."""
    said = memory_line(row.get("memory") or {})
    ends = row.get("fault") or f"{row['verdict']} {row['reason']} {row['message'][:300]}".rstrip()
    why = f" ({row['why'][:200]})" if row.get("why") else ""
    skipped = f"; warned: {', '.join(row['skipped'])}" if row.get("skipped") else ""
    times = f"; admitted in {row.get('admit_s', 0)} s, judged in {row['judge_s']} s"
    return f"{row['name']:22} {row.get('state', '?')}{why}: {ends}{times}{said}{skipped}"


def memory_line(memory: dict[str, Any]) -> str:
    """The plan beside what was reached."""
    if not memory:
        return ""
    reached = ", ".join(f"{name} {gib(size)}" for name, size in memory["reached_bytes"].items())
    how = f"lean, {memory['oracle']}" if memory["lean"] else "whole"
    needs = gib(memory["least_bytes"] if memory["lean"] else memory["whole_bytes"])
    return f"; {how}, planned {needs}; reached {reached or 'unknown'}"
