"""`manage.py judge_compile FILE...`: compiles every kernel of candidates for a GPU that need not be there."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.bench.targets import TARGETS
from judge.compile_files import Candidate, NotUsable, candidates, table
from judge.runner import Bench
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec, Verdict

_LIMITS = Limits(wall_s=90, stage_s=60)


class Command(BaseCommand):
    help = (
        "Compile the kernels that candidates launch, for a GPU that need not be there; nothing is executed. A FILE "
        "with class ModelNew is a candidate; one with class Model and get_inputs is the problem that gives the shapes "
        "(it may be the same file). Status 1 when any candidate does not compile."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument("--problem", type=Path, metavar="FILE", help="the problem, when no FILE is one")
        parser.add_argument("--case", help="a case that the problem's get_cases() declares")
        parser.add_argument(
            "--target", action="append", choices=sorted(TARGETS), help="repeat for more (default: JUDGE_TARGET)"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object a candidate and target")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            problem = options["problem"].read_text(encoding="utf-8") if options["problem"] else None
            wanted = candidates(options["files"], problem)
        except (OSError, UnicodeDecodeError, NotUsable) as error:
            raise CommandError(str(error)) from error
        failed = 0
        for name in options["target"] or [settings.JUDGE_TARGET]:
            with self._bench(name) as bench:
                for candidate in wanted:
                    outcome = self._compile(bench, candidate, options["case"])
                    failed += outcome.verdict is not Verdict.COMPILED_ONLY
                    self._tell(candidate, name, outcome, as_json=options["json"])
        if failed:
            raise SystemExit(1)

    def _bench(self, target: str) -> Bench:
        try:
            bench = Bench(f"compile:{target}")
            bench.server("recorder").wait_ready()  # loading the compiler is no candidate's time
        except ValueError as error:
            raise CommandError(f"JUDGE_TARGET: {error}") from error
        except JudgeError as error:
            raise CommandError(str(error)) from error
        return bench

    def _compile(self, bench: Bench, candidate: Candidate, case: str | None) -> Outcome:
        job = Job(uuid.uuid4().hex, ProblemSpec(candidate.problem, case), candidate.source, limits=_LIMITS)
        try:
            return bench.evaluate(job)
        except JudgeError as error:
            raise CommandError(f"{candidate.name}: the compile stage itself failed: {error}") from error

    def _tell(self, candidate: Candidate, target: str, outcome: Outcome, *, as_json: bool) -> None:
        if as_json:
            row = {"file": candidate.name, "target": target, **outcome.to_json()}
            self.stdout.write(json.dumps(row, default=str))
            return
        reason = "" if outcome.verdict is Verdict.COMPILED_ONLY else f" ({outcome.reason})"
        self.stdout.write(f"{candidate.name} for {target}: {outcome.verdict}{reason} in {outcome.wall_ms:,.0f} ms")
        lines = table(outcome, target)
        if outcome.verdict is not Verdict.COMPILED_ONLY:
            lines += outcome.message.split("\n")
        lines += [finding.message for finding in outcome.findings if finding.code != "compile.incomplete"]
        for line in lines:
            self.stdout.write(f"  {line}")
