"""`manage.py judge_compile FILE...`: compiles every kernel of candidates for a GPU that need not be there."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.bench.interpreting.targets import TARGETS
from judge.compile_files import Candidate, NotUsable, candidates, table
from judge.models import Device, Problem
from judge.runner import Bench
from judge.services.devices import compile_device
from judge.services.evaluations import evaluation_known, evaluation_store, toolchain_of
from judge.source_checks import case_for, declared_cases
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec, Verdict, canonical_hash

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
        parser.add_argument(
            "--store", metavar="SLUG", help="compile for this problem of the dashboard, and keep what comes of it there"
        )
        parser.add_argument("--json", action="store_true", help="print one JSON object a candidate and target")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            problem = options["problem"].read_text(encoding="utf-8") if options["problem"] else None
            kept = _problem(options["store"], options) if options["store"] else None
            problem = kept.source if kept is not None else problem
            wanted = candidates(options["files"], problem)
        except (OSError, UnicodeDecodeError, NotUsable) as error:
            raise CommandError(str(error)) from error
        failed = 0
        for name in options["target"] or [settings.JUDGE_TARGET]:
            with self._bench(name) as bench:
                for candidate in wanted:
                    outcome = self._compile(bench, candidate, options["case"], kept)
                    failed += outcome.verdict is not Verdict.COMPILED_ONLY
                    self._tell(candidate, name, outcome, as_json=options["json"])
                    if kept is not None:
                        self._store(kept, bench, candidate, outcome, as_json=options["json"])
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

    def _compile(self, bench: Bench, candidate: Candidate, case: str | None, kept: Problem | None) -> Outcome:
        spec = ProblemSpec(candidate.problem, case) if kept is None else kept.spec(_case(kept))
        job = Job(uuid.uuid4().hex, spec, candidate.source, limits=_LIMITS)
        try:
            return bench.evaluate(job)
        except JudgeError as error:
            raise CommandError(f"{candidate.name}: the compile stage itself failed: {error}") from error

    def _store(self, problem: Problem, bench: Bench, candidate: Candidate, outcome: Outcome, *, as_json: bool) -> None:
        """Keep it as an evaluation of the compile-only device, unless the same one is there already."""
        device, toolchain = compile_device(target=bench.target), toolchain_of(bench)
        digest = canonical_hash(candidate.source)
        row = evaluation_known(problem=problem, device=device, candidate_hash=digest, toolchain=toolchain)
        row = row or evaluation_store(
            problem=problem, device=device, source=candidate.source, toolchain=toolchain, outcome=outcome
        )
        out = self.stderr if as_json else self.stdout
        out.write(f"  kept as evaluation {row.pk} of {device.name}: /evaluations/{row.pk}/")

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


def _problem(slug: str, options: dict[str, Any]) -> Problem:
    """The dashboard's problem. Its own case is compiled, so that equal kernels find each other."""
    if options["problem"] or options["case"]:
        raise NotUsable("--store takes the problem and its case from the dashboard: leave out --problem and --case.")
    found = Problem.objects.filter(slug=slug).first()
    if found is None:
        raise NotUsable(f"There is no problem {slug!r}; the page of problems, and `seed_samples`, say which there are.")
    return found


def _case(problem: Problem) -> str | None:
    return case_for(Device.Kind.COMPILE, declared_cases(problem.source))
