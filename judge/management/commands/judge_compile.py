"""`manage.py judge_compile FILE...`: compiles every kernel of candidates for a GPU that need not be there."""

from __future__ import annotations

import json
import uuid
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.bench.interpreting.targets import TARGETS
from judge.bench.runner import Bench
from judge.devices.benches import toolchain_of
from judge.devices.models import TRAITS, Device
from judge.devices.services import compile_device
from judge.evaluations.compile_files import PLAIN, Candidate, NotUsable, candidates, case_said, case_to_compile, table
from judge.evaluations.services import evaluation_known, evaluation_store
from judge.problems.models import Problem
from judge.values import Job, JudgeError, Outcome, ProblemSpec, Verdict, canonical_hash


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
        parser.add_argument(
            "--case", help=f"a case of the problem's get_cases(), or {PLAIN} (default: the one for GPUs)"
        )
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
            specs = [_spec(candidate, kept, options["case"]) for candidate in wanted]
        except (OSError, UnicodeDecodeError, NotUsable) as error:
            raise CommandError(str(error)) from error
        failed = 0
        for name in options["target"] or [settings.JUDGE_TARGET]:
            with self._bench(name) as bench:
                for candidate, spec in zip(wanted, specs, strict=True):
                    outcome = self._compile(bench, candidate, spec)
                    failed += outcome.verdict is not Verdict.COMPILED_ONLY
                    self._tell(candidate, name, spec.case, outcome, as_json=options["json"])
                    if kept is not None:
                        self._store(kept, bench, candidate, spec, outcome, as_json=options["json"])
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

    def _compile(self, bench: Bench, candidate: Candidate, spec: ProblemSpec) -> Outcome:
        job = Job(uuid.uuid4().hex, spec, candidate.source, limits=TRAITS[Device.Kind.COMPILE].limits)
        try:
            return bench.evaluate(job)
        except JudgeError as error:
            raise CommandError(f"{candidate.name}: the compile stage itself failed: {error}") from error

    def _store(
        self,
        problem: Problem,
        bench: Bench,
        candidate: Candidate,
        spec: ProblemSpec,
        outcome: Outcome,
        *,
        as_json: bool,
    ) -> None:
        """Keep it as an evaluation of the compile-only device, unless one of the same case is there already."""
        device, toolchain = compile_device(target=bench.target), toolchain_of(bench)
        digest = canonical_hash(candidate.source)
        row = evaluation_known(problem=problem, device=device, candidate_hash=digest, toolchain=toolchain)
        if row is None or row.report.get("case", "") != spec.case:  # older ones do not say what was compiled
            row = evaluation_store(
                problem=problem,
                device=device,
                source=candidate.source,
                toolchain=toolchain,
                outcome=outcome,
                spec=spec,
            )
        out = self.stderr if as_json else self.stdout
        said = case_said(spec.case)
        out.write(f"  kept as evaluation {row.pk} of {device.name}, {said}: /evaluations/{row.pk}/")

    def _tell(self, candidate: Candidate, target: str, case: str | None, outcome: Outcome, *, as_json: bool) -> None:
        if as_json:
            row = {"file": candidate.name, "target": target, "case": case, **outcome.to_json()}
            self.stdout.write(json.dumps(row, default=str))
            return
        reason = "" if outcome.verdict is Verdict.COMPILED_ONLY else f" ({outcome.reason})"
        head = f"{candidate.name} for {target}, {case_said(case)}"
        self.stdout.write(f"{head}: {outcome.verdict}{reason} in {outcome.wall_ms:,.0f} ms")
        lines = table(outcome, target)
        if outcome.verdict is not Verdict.COMPILED_ONLY:
            lines += outcome.message.split("\n")
        lines += [finding.message for finding in outcome.findings if finding.code != "compile.incomplete"]
        for line in lines:
            self.stdout.write(f"  {line}")


def _problem(slug: str, options: dict[str, Any]) -> Problem:
    """The dashboard's problem. Its own case is compiled, so that equal kernels find each other."""
    if options["problem"] or options["case"]:
        raise NotUsable(
            "--store compiles a problem of the dashboard in the case that GPUs judge: leave out --problem and --case."
        )
    found = Problem.objects.filter(slug=slug).first()
    if found is None:
        raise NotUsable(f"There is no problem {slug!r}; the page of problems, and `seed_samples`, say which there are.")
    return found


def _spec(candidate: Candidate, kept: Problem | None, case: str | None) -> ProblemSpec:
    """What a candidate is compiled for. Raises NotUsable where nobody knows the problem's cases."""
    if kept is None:
        return ProblemSpec(candidate.problem, case_to_compile(candidate.problem, case))
    reports = [report for report in kept.admission.values() if isinstance(report, dict)]
    read = next((report["cases"] for report in reports if report.get("cases")), ())
    return kept.spec(case_to_compile(kept.source, None, read))
