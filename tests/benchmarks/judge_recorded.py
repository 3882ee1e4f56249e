"""The kernels of recorded searches under this judge, beside what was published: `judge_recorded FILE...`."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.batch.lines import Busy, OutcomeFile
from judge.bench.compiling.stage import COMPILE
from judge.bench.device.nvml import gpus_here
from judge.bench.runner import Bench
from judge.bench.sandboxing.minimum import required_layers
from judge.doctor.examine import device_names
from judge.values import DEFAULT_POLICY, JudgeError, Limits
from search.interchange.recording import RecordingRejected
from tests.benchmarks.recorded.entries import Entry, sample
from tests.benchmarks.recorded.published import AS_PUBLISHED, recorded_entries
from tests.benchmarks.recorded.report import conclusion, explanations, report, table
from tests.benchmarks.recorded.rows import Relation, Row, read_rows
from tests.benchmarks.recorded.run import Judge, Plan, Tally, judge_all

_LIMITS = Limits(wall_s=120, stage_s=60)


class Command(BaseCommand):
    help = (
        "Judge every distinct kernel of recorded searches on a device, and set the verdicts beside the published ones: "
        "a table per problem, then what differs, grouped by reason with its evidence. --device compile:sm_90 compiles "
        "for a GPU that need not be there and runs nothing. With --out rows are appended as they come; the same "
        "command again goes on from there. Nothing is written to the database."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="recorded searches, gzipped or not")
        parser.add_argument("--device", required=True, help="cuda:N, compile:sm_90 (or another target), interpreter")
        parser.add_argument("--sample", type=int, metavar="N", help="only N, of every problem and published outcome")
        parser.add_argument("--seed", type=int, default=1, help="of the sample (1)")
        parser.add_argument("--workers", type=int, default=1, help="kernels at a time (1); timings take turns")
        parser.add_argument("--budget", type=float, metavar="SECONDS", help="no further kernel begins after")
        parser.add_argument("--out", type=Path, metavar="FILE", help="append a line of JSON for each kernel")
        parser.add_argument("--report", action="store_true", help="judge nothing: compare what --out holds already")
        parser.add_argument("--audit", action="store_true", help="audit every pass, as a would-be best is")
        parser.add_argument(
            "--strict",
            action="store_true",
            help="judge as import_search sets the problem up: parameters are given to the kernel. Without it a kernel "
            "makes its own from the reference's seed, as it did when it was published",
        )
        parser.add_argument("--json", action="store_true", help="print the comparison as JSON; progress goes to stderr")

    def handle(self, *args: Any, **options: Any) -> None:
        device = options["device"]
        try:
            plan = Plan(device, options["workers"], options["budget"], options["audit"], _LIMITS)
            entries = self._entries(options)
            with ExitStack() as stack:
                out = stack.enter_context(OutcomeFile(options["out"])) if options["out"] else None
                before = list(read_rows(options["out"])) if options["out"] else []
                tally = Tally((), 0, 0) if options["report"] else self._judge(entries, plan, before, out)
            rows = _about(entries, [*before, *tally.rows], device)
            found = report(rows)
        except (ValueError, JudgeError, Busy, RecordingRejected) as error:
            raise CommandError(str(error)) from error
        except OSError as error:
            raise CommandError(f"{error.filename or 'a file'}: {error.strerror}") from error
        if options["json"]:
            facts = {"device": device, "protocol": rows[-1].protocol, "toolchain": rows[-1].toolchain}
            self.stdout.write(json.dumps({**facts, "left": tally.left, **found.to_json()}, indent=1))
            return
        self.stdout.write("\n".join([*table(found), *explanations(found), ""]))
        self.stdout.write(conclusion(found))
        if tally.left:
            self.stdout.write(f"{tally.left} kernels are left" + (": the same command goes on" if out else ""))

    def _entries(self, options: dict[str, Any]) -> list[Entry]:
        kind = options["device"].partition(":")[0]
        kind = "cuda" if options["device"].startswith(COMPILE) else kind
        policy = DEFAULT_POLICY if options["strict"] else AS_PUBLISHED
        found = recorded_entries(options["files"], kind=kind, policy=policy)
        size = len(found) if options["sample"] is None else options["sample"]
        return sample(found, size, options["seed"])  # in the sample's order: a run cut short has seen every problem

    def _judge(self, entries: list[Entry], plan: Plan, before: list[Row], out: OutcomeFile | None) -> Tally:
        known = {row.key for row in before if row.relation is not Relation.LOST}
        judged = 0

        def told(row: Row) -> None:
            nonlocal judged
            judged += 1
            if out is not None:
                out.append(row.to_line())
            mark = "" if row.relation is Relation.AGREES else f"  {row.relation}"
            self.stderr.write(f"{judged:4} {row.id:20} {row.published!s:21} {row.words:34} {row.wall_s:6.1f} s{mark}")

        return judge_all(entries, _opener(plan.device), plan, known=known, told=told)


def _about(entries: list[Entry], rows: list[Row], device: str) -> list[Row]:
    """Rows of these entries, this device and the last toolchain: the file may hold others."""
    wanted = {(entry.spec.hash, entry.hash) for entry in entries}
    own = [row for row in rows if row.device == device and (row.problem_hash, row.candidate) in wanted]
    newest = next((row for row in reversed(own) if row.toolchain), None)
    if newest is None:
        return own
    kept = {(newest.toolchain, newest.protocol), ("", newest.protocol)}  # what never got as far as a bench knows none
    return [row for row in own if (row.toolchain, row.protocol) in kept]


def _opener(device: str) -> Callable[[], Judge]:
    """Opens benches of `device`. Raises ValueError when there is none of that name."""
    arch = {f"cuda:{gpu.ordinal}": gpu.arch for gpu in gpus_here()}
    if not device.startswith(COMPILE) and device not in device_names():
        raise ValueError(f"There is no device {device!r} here. Known: compile:sm_90, {', '.join(device_names())}.")
    layers = required_layers(settings.JUDGE_MIN_SANDBOX)

    def open_bench() -> Bench:
        target = arch.get(device) or str(settings.JUDGE_TARGET)
        bench = Bench(device, target=target, minimum_sandbox=layers, alternatives=False)
        if device.startswith(COMPILE):
            bench.server("recorder").wait_ready()  # loading the compiler is no kernel's time
        return bench

    if device.startswith(COMPILE):
        Bench(device).close()  # an unknown target is told before any thread starts
    return open_bench
