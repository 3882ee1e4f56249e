"""Runs one search in this process, without queue, server or sign-in, and prints what came of it."""

from __future__ import annotations

import json
import shlex
import sys
import time
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from judge.bench.interpreting.calibration import model_for
from judge.devices.benches import bench_for, toolchain_of
from judge.devices.models import Device
from judge.evaluations.measures import BESIDE, Measure
from judge.problems.admission import admission_queue, problem_admit
from judge.problems.models import OFFERED, Problem
from judge.problems.preflight import preflight
from judge.selftest.trust import doubt_about
from judge.values import Basis, JudgeError, StageRecord, Stopped
from memory.prompting.places import toolchain_now
from search.algorithm.params import PRESELECTED, PRESETS, SearchParams, preset_get
from search.engine.driver import LOOK_AGAIN_S, alone, drive
from search.engine.leases import MAX_RETRIES
from search.interchange.exports import kernel_file, run_document
from search.ledger.limits import limits_from_texts
from search.management.console import JOBS, device_of, exchange_of, file_errors, refusals
from search.proposers import NAMES
from search.proposers import get as get_proposer
from search.records.events import Event, LeaseExpired, NodeBest, NodeCompleted, NodeReserved, ProposerRetry
from search.records.facts import nothing_faster, standing_of
from search.records.models import Node, Run
from search.records.queries import events_since
from search.runs.memory_fields import memory_arguments, memory_chosen
from search.runs.services import run_start, run_stop


class Command(BaseCommand):
    help = "Search for a faster kernel in this process and print the result."
    sleep = staticmethod(time.sleep)  # between tries of the endpoint or the judge

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--problem", required=True, metavar="SLUG")
        parser.add_argument("--steps", type=_positive, default=30)
        parser.add_argument("--proposer", default="builtin", metavar="|".join(NAMES))
        parser.add_argument("--device", default="interpreter", help="interpreter, cuda:N, or an enrolled one")
        parser.add_argument("--jobs", type=Path, metavar="FOLDER", help=JOBS)
        parser.add_argument("--seed", type=int, help="same seed, same tree; random when left out")
        parser.add_argument(
            "--limits",
            nargs="*",
            default=[],
            metavar="NAME=VALUE",
            help="evaluations, device_s, tokens, usd, wall_s, stale_steps, target_speedup, roofline_share, ...",
        )
        parser.add_argument("--preset", default=PRESELECTED, metavar="|".join(PRESETS))
        parser.add_argument("--params", nargs="*", default=[], metavar="NAME=VALUE", help="changes to the preset")
        memory_arguments(parser)
        parser.add_argument("--json", action="store_true", help="print one JSON document, progress goes to stderr")
        parser.add_argument("--out", type=Path, metavar="DIR", help="write result.json and the best or closest kernel")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["proposer"] == "manual":
            raise CommandError("The proposer 'manual' needs the page to answer on: start that search in the browser.")
        out: Path | None = options["out"]
        if out is not None:
            with file_errors(out, "created"):
                out.mkdir(parents=True, exist_ok=True)
        problem, device = _problem(options["problem"]), device_of(options["device"])
        self._exchange = exchange_of(device, options["jobs"])
        started = time.monotonic()
        with alone():
            run, interrupted = self._search(problem, device, options)
            document = run_document(
                run,
                toolchain=toolchain_now(problem, device) if device.remote else _toolchain(device),
                wall_s=time.monotonic() - started,
                command=shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]]),
            )
            if out is not None:
                _write(out, document, run)
        self.stdout.write(json.dumps(document, indent=1) if options["json"] else _sentence(document, device))
        if interrupted:
            raise CommandError("Interrupted: the search was stopped, its tree is kept.", returncode=130)
        if not run.ended and run.device.state == Device.State.QUARANTINED:
            raise CommandError(_waits(run.device))
        if not run.ended and run.problem.quarantined:
            said = run.problem.quarantine_reason
            raise CommandError(f"The problem is quarantined ({said}); the search waits. Release it on its page.")
        if run.state != Run.State.FINISHED:
            nothing = "" if document["nodes"] else " No node was made."
            raise CommandError(f"The search is {run.state}: {run.stop_reason.removeprefix('Paused: ')}{nothing}")

    def _search(self, problem: Problem, device: Device, options: dict[str, Any]) -> tuple[Run, bool]:
        """The run as it stands at the end, and whether it was interrupted."""
        run: Run | None = None
        try:
            self._admit(problem, device)
            run = self._start(problem, device, options)
            self._warn(device)
            self._drive(run)
        except KeyboardInterrupt:
            if run is None:
                raise CommandError("Interrupted before the search began.", returncode=130) from None
            if not _fresh(run).ended:
                run_stop(run=run, user=None, drain=False)
            return _fresh(run), True
        except JudgeError as error:
            raise CommandError(f"The judge failed: {error}") from error
        except Stopped as error:
            raise CommandError(f"It was stopped: {error}") from error
        return _fresh(run), False

    def _admit(self, problem: Problem, device: Device) -> None:
        """Preflight when this device has not seen the problem yet. Raises CommandError when it is refused."""
        report = problem.report_for(device.name) or {}
        if report.get("state") not in {"admitted", "degenerate"}:
            self._say(f"preflight of {problem.slug} on {device.name}")
        if device.remote:
            report = self._admit_elsewhere(problem, device)
        elif report.get("state") not in {"admitted", "degenerate"}:
            report = problem_admit(
                problem=problem, device=device, bench=bench_for(device), on_stage=self._say_stage
            ).to_json()
        if report["state"] == "refused":
            raise CommandError(f"{problem.slug} was refused on {device.name}: {report['message'] or report['reason']}")
        if report["state"] == "degenerate":
            self._say(f"warning: {problem.slug} is degenerate ({report['reason']}): a speedup here proves little")

    def _admit_elsewhere(self, problem: Problem, device: Device) -> dict[str, Any]:
        """The report of the preflight on another machine, once it is there."""
        check = preflight(problem, device, now=timezone.now())
        if not (check.usable or check.unfinished):
            admission_queue(problem=problem, device=device)
        while not (check := preflight(problem, device, now=timezone.now())).decided:
            if check.state == "failed":
                raise CommandError(check.why_not)
            self._exchange()
            self.sleep(LOOK_AGAIN_S)
            problem.refresh_from_db()
        return check.report

    def _start(self, problem: Problem, device: Device, options: dict[str, Any]) -> Run:
        with refusals(ActionRefused, ValueError):
            preset = preset_get(options["preset"]).params
            return run_start(
                problem=problem,
                device=device,
                proposer=options["proposer"],
                steps=options["steps"],
                seed=options["seed"],
                params=SearchParams.from_texts(options["params"], preset.to_json()).to_json(),
                limits=limits_from_texts(options["limits"]),
                memory=memory_chosen(options),
                origin=Run.Origin.COMMAND,
            )

    def _warn(self, device: Device) -> None:
        doubt = doubt_about(device, now=timezone.now())
        if doubt is not None:
            self._say(f"warning: {doubt.text} Run {doubt.command}" if doubt.command else f"warning: {doubt.text}")

    def _drive(self, run: Run) -> None:
        seen = 0

        def report() -> None:
            nonlocal seen
            for event in events_since(run, seen):
                seen = event.seq
                line = _progress(run, event.said)
                if line:
                    self._say(line)

        drive(
            run=run,
            proposer_for=get_proposer,
            bench_for=bench_for,
            sleep=self.sleep,
            report=report,
            elsewhere=self._exchange,
        )

    def _say_stage(self, stage: StageRecord) -> None:
        self._say(f"  {stage.name}: {stage.state} {stage.wall_ms:.0f} ms {stage.detail or stage.fix}".rstrip())

    def _say(self, line: str) -> None:
        self.stderr.write(line)
        self.stderr.flush()


def _progress(run: Run, event: Event) -> str:
    """One line of progress for the terminal; empty for most events."""
    match event:
        case NodeCompleted():
            result = _figure(Measure.of(event)) if event.speedup else event.reason
            again = " (known)" if event.reused else ""
            return f"[{event.order}/{run.steps}] node {event.number}: {event.verdict} {result}{again}"
        case NodeBest():
            word = "new best" if event.won else "closest to PyTorch so far"
            return f"    {word}: node {event.number}, {_figure(Measure.of(event))}"
        case NodeReserved() if run.proposer == "openai":
            return f"    node {event.number}: asking the model"
        case ProposerRetry():
            tries = f"try {event.attempt} of {MAX_RETRIES}, next in {event.wait_s:g} s"
            return f"    node {event.number}: no proposal, {tries}. {event.message}"
        case LeaseExpired():
            return f"    node {event.number}: {event.message or 'taken up again'}"
    return ""


def _waits(device: Device) -> str:
    why = f" ({device.state_reason})" if device.state_reason else ""
    how = f"Check it: judge_check_device --device {device.name}" if device.state_cause else "Activate it on its page"
    return f"{device.name} is quarantined{why}; the search waits. {how}, then run `manage.py up` to continue it."


def _figure(shown: Measure | None) -> str:
    if shown is None:
        return ""
    if shown.error is not None:
        figure = f"{shown.value:.2f}× within {shown.error:.1f}× MODELLED"
    else:
        count = f" {shown.count}" if shown.count else ""
        figure = f"{shown.value:.2f}× [{shown.low:.2f}–{shown.high:.2f}]{count} {shown.basis.upper()}"
    return "; ".join([figure, *shown.beside])


def _sentence(document: dict[str, Any], device: Device) -> str:
    run, best = document["run"], document["best"] or document["closest"]
    head = f"Run {run['id']} on {run['problem']}: {run['told']} of {run['steps']} steps in {run['wall_s']:.1f} s."
    if run["state"] == Run.State.FINISHED and run["stop_reason"]:
        head = f"{head} {run['stop_reason']}"
    if best is None:
        correct = sum(node["verdict"] == "pass" for node in document["nodes"])
        return (
            f"{head} {correct} correct; none was audited as a best."
            if correct
            else f"{head} No correct kernel was found."
        )
    low, high = best["interval"] or (None, None)
    error = f" {model_for(device.arch).sentence}" if device.basis is Basis.MODELLED else ""
    word = "Best" if document["best"] else f"{nothing_faster(ended=True)}. Closest"
    beside = {name: best[name] for name in ("fastest", *BESIDE)}
    shown = Measure(best["speedup"], low, high, best["n"], Basis(best["basis"]), **beside)
    return f"{head} {word}: node {best['number']}, {_figure(shown)}.{error}"


def _fresh(run: Run) -> Run:
    return Run.objects.select_related("problem", "device").get(pk=run.pk)


def _toolchain(device: Device) -> str:
    """Versions as stored with every evaluation; empty when the judge does not answer any more."""
    try:
        return toolchain_of(bench_for(device))
    except JudgeError:
        return ""


def _problem(slug: str) -> Problem:
    found = Problem.objects.filter(slug=slug).first()
    if found is None:
        slugs = ", ".join(_known_slugs())
        known = f"Known: {slugs}." if slugs else "There are none yet: run `manage.py seed_samples` first."
        raise CommandError(f"There is no problem {slug!r}. {known}")
    if found.archived_at is not None:
        raise CommandError(f"The problem {slug!r} is archived. Unarchive it on its page first.")
    return found


def _known_slugs() -> list[str]:
    known = Problem.objects.filter(OFFERED).exclude(origin=Problem.Origin.SYNTHETIC).order_by("slug")
    return list(known.values_list("slug", flat=True)[:60])


def _write(folder: Path, document: dict[str, Any], run: Run) -> None:
    (folder / "result.json").write_text(json.dumps(document, indent=1) + "\n")
    standing = standing_of(run.pk)
    for name, number in (("best.py", standing.best), ("closest.py", standing.closest)):
        if number is not None:
            (folder / name).write_bytes(kernel_file(Node.objects.get(run=run, number=number))[1])


def _positive(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise ArgumentTypeError(f"{text!r} is not a whole number from 1 up")
    return int(text)
