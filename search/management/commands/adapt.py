"""Runs the Adapt stage in one command: composes tasks, searches them with and without memory, shows what that did."""

from __future__ import annotations

import json
import time
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adaexplore_site.core.audit import ActionRefused
from judge.devices.benches import bench_for, close_benches
from judge.devices.services import DeviceMissing, device_get, devices_sync
from judge.problems.models import Problem
from judge.problems.services import samples_seed
from memory.adapt.models import AdaptRun, AdaptTask
from memory.prompting.choices import TRUST, MemoryChoice
from search.algorithm.params import SearchParams
from search.algorithm.presets import ALIASES, PRESETS, preset_get
from search.batches import adapt_runs as services
from search.batches.adapt_document import adapt_document
from search.batches.adapt_driver import Hands, drive_adapt
from search.batches.adapt_rows import adapt_rows
from search.batches.adapt_spending import NAMES
from search.batches.adapt_text import effect_lines, progress_line, task_line
from search.batches.adapt_writer import write_task
from search.batches.campaign_problems import Filter, by_slugs, filtered
from search.engine.driver import alone
from search.proposers import get as get_proposer
from search.records.models import Run
from search.records.queries import told_counts

WAITS = "Workers carry it on within seconds: keep `manage.py up` running."


class Command(BaseCommand):
    help = "Adapt: learn rules from failures on composed tasks, and measure whether they help. See docs/adr/0027."
    sleep = staticmethod(time.sleep)

    def add_arguments(self, parser: CommandParser) -> None:
        one = parser.add_mutually_exclusive_group()
        one.add_argument("--resume", type=int, metavar="ID", help="go on with an adapt run, also after a kill")
        one.add_argument("--status", type=int, metavar="ID", help="only show how one stands")
        one.add_argument("--pause", type=int, metavar="ID")
        one.add_argument("--stop", type=int, metavar="ID")
        one.add_argument("--list", action="store_true", help="all adapt runs")
        one.add_argument("--transfer", type=int, metavar="ID", help="try what one has learned on given problems")
        _settings(parser)
        _memory(parser)
        chosen = parser.add_argument_group("problems of a transfer; imported and uploaded ones when none is named")
        chosen.add_argument("--problems", nargs="+", metavar="SLUG")
        chosen.add_argument("--level", default="", help="2 or level2")
        chosen.add_argument("--origin", default="", choices=["", "import", "upload", "sample"])
        chosen.add_argument("--match", default="", metavar="TEXT", help="in title or slug")
        parser.add_argument("--detach", action="store_true", help=WAITS)
        parser.add_argument("--json", action="store_true", help="print one JSON document, progress goes to stderr")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self._do(options)
        except ActionRefused as error:
            raise CommandError(str(error)) from error

    def _do(self, options: dict[str, Any]) -> None:
        if options["list"]:
            for row in adapt_rows(list(AdaptRun.objects.select_related("device").order_by("pk"))):
                self.stdout.write(progress_line(row))
        elif options["status"] is not None:
            self._show(_adapt(options["status"]), options["json"])
        elif options["pause"] is not None:
            self._show(services.adapt_pause(adapt=_adapt(options["pause"]), user=None), options["json"])
        elif options["stop"] is not None:
            self._show(services.adapt_stop(adapt=_adapt(options["stop"]), user=None), options["json"])
        elif options["resume"] is not None:
            adapt = _adapt(options["resume"])
            if not adapt.ended:
                adapt = services.adapt_resume(adapt=adapt, user=None)
            self._go(adapt, options)
        else:
            self._go(self._start(options), options)

    def _start(self, options: dict[str, Any]) -> AdaptRun:
        devices_sync()
        samples_seed()
        plan = _plan(options)
        if options["transfer"] is not None:
            adapt = services.transfer_start(
                learned_by=_adapt(options["transfer"]), problems=_problems(options), plan=plan
            )
        else:
            adapt = services.adapt_start(plan=plan)
        control = f"and {adapt.control_steps} without memory" if adapt.control_steps else "and no comparison"
        self.say(f"adapt run {adapt.pk}: {adapt.tasks} tasks, {adapt.steps} steps each {control}, seed {adapt.seed}")
        return adapt

    def _go(self, adapt: AdaptRun, options: dict[str, Any]) -> None:
        """Hand over to the workers, or drive here; Ctrl-C pauses."""
        if options["detach"]:
            self.stdout.write(f"adapt run {adapt.pk}. {WAITS}")
            return
        hands = Hands(write_task, get_proposer, bench_for, self.sleep, self._told, _Teller(self))
        with alone():
            try:
                drive_adapt(adapt=adapt, hands=hands)
            except KeyboardInterrupt:
                left = _adapt(adapt.pk)
                if not left.ended:
                    services.adapt_pause(adapt=left, user=None)
                how = f"Go on with: manage.py adapt --resume {adapt.pk}"
                raise CommandError(f"Paused, nothing is lost. {how}", returncode=130) from None
            finally:
                close_benches()
        left = _adapt(adapt.pk)
        self._show(left, options["json"])
        if not left.ended:
            why = left.stop_reason or f"{left.device.name} is {left.device.state}, or a search is paused."
            raise CommandError(f"The adapt run waits: {why} Go on with: manage.py adapt --resume {left.pk}")
        if left.state == AdaptRun.State.STOPPED:
            raise CommandError(f"The adapt run was stopped. {left.stop_reason}")
        if not adapt_rows([left])[0].progress.attempted:
            raise CommandError(f"No task was attempted. {left.stop_reason}")

    def _show(self, adapt: AdaptRun, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(adapt_document(adapt), indent=1))
            return
        row = adapt_rows([adapt])[0]
        self.stdout.write(progress_line(row))
        if adapt.ended and not row.progress.attempted:
            for task in adapt.entries.filter(state=AdaptTask.State.REFUSED).order_by("place"):
                self.stdout.write(f"  {task_line(task)}")
        for line in effect_lines(adapt_document(adapt)):
            self.stdout.write(line)

    def _told(self, task: AdaptTask) -> None:
        line = task_line(task)
        if line:
            self.say(line)

    def say(self, line: str) -> None:
        """One line of progress."""
        self.stderr.write(line)
        self.stderr.flush()


class _Teller:
    """Says each search once it has ended."""

    def __init__(self, command: Command) -> None:
        self._command, self._said = command, 0

    def __call__(self, run: Run) -> None:
        told = told_counts([run.pk]).get(run.pk, 0)
        if told >= run.steps and run.pk != self._said:
            self._said = run.pk
            passed = run.nodes.filter(evaluation__verdict="pass").count()
            self._command.say(f"  {run.title} (search {run.pk}): {passed} of {told} attempts pass")


def _settings(parser: CommandParser) -> None:
    parser.add_argument("--tasks", type=int, default=200, help="tasks to attempt")
    parser.add_argument("--steps", type=int, default=25, help="of the search on each")
    parser.add_argument(
        "--control-steps", type=int, help=f"of a search without memory on each; {services.CONTROL_STEPS} when left out"
    )
    parser.add_argument("--device", default="interpreter", help="interpreter or cuda:N")
    parser.add_argument("--proposer", default="builtin", metavar="builtin|openai")
    parser.add_argument(
        "--option",
        action="append",
        metavar="NAME=VALUE",
        help="of the proposer; the built-in one takes dialect=mixed when none is given, so that it makes mistakes",
    )
    parser.add_argument("--composer", default="builtin", choices=["builtin", "model"], help="who writes the tasks")
    parser.add_argument("--seed", type=int, help="same seed, same tasks and searches; random when left out")
    parser.add_argument("--at-once", type=int, default=1, help="tasks at the same time, with workers")
    parser.add_argument("--concurrency", type=int, default=1, help="steps in flight of each search")
    parser.add_argument("--preset", default="adapt", choices=[*PRESETS, *ALIASES])
    parser.add_argument("--params", nargs="*", default=[], metavar="NAME=VALUE", help="over the preset")
    parser.add_argument("--limits", nargs="*", default=[], metavar="NAME=VALUE", help=f"of the run: {', '.join(NAMES)}")
    parser.add_argument("--title", default="")


def _memory(parser: CommandParser) -> None:
    usual = MemoryChoice()
    parser.add_argument("--trust", default="auto", choices=TRUST, help="auto: rules count before a person has decided")
    parser.add_argument("--threshold", type=int, default=usual.threshold, help="problems a rule must be seen on")
    parser.add_argument("--withhold", type=float, default=usual.withhold, help="how often a rule is left out on trial")
    parser.add_argument("--budget-tokens", type=int, default=usual.budget_tokens, help="room for rules in a prompt")


def _plan(options: dict[str, Any]) -> services.AdaptPlan:
    try:
        device = device_get(name=options["device"])
        base = preset_get(options["preset"]).params.to_json()
        return services.AdaptPlan(
            device=device,
            proposer=options["proposer"],
            tasks=options["tasks"],
            steps=options["steps"],
            control_steps=options["control_steps"],
            seed=options["seed"],
            composer=options["composer"],
            at_once=options["at_once"],
            concurrency=options["concurrency"],
            title=options["title"],
            params=SearchParams.from_texts(options["params"], base).to_json(),
            options=None if options["option"] is None else dict(_pair(text) for text in options["option"]),
            limits=dict(_pair(text) for text in options["limits"]),
            memory=MemoryChoice(
                uses=True,
                learns=True,
                trust=options["trust"],
                threshold=options["threshold"],
                withhold=options["withhold"],
                budget_tokens=options["budget_tokens"],
            ),
        )
    except (DeviceMissing, ValueError) as error:
        raise CommandError(str(error)) from error


def _pair(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise ValueError(f"{text!r} is not name=value.")
    return name, value


def _problems(options: dict[str, Any]) -> list[Problem]:
    """Those named, or those of a filter. Raises CommandError when one is missing."""
    if options["problems"]:
        problems, missing = by_slugs(options["problems"])
        if missing:
            raise CommandError(f"There is no problem {missing[0]!r}.")
        return problems
    chosen = Filter(level=options["level"], origin=options["origin"], q=options["match"])
    return [one for one in filtered(chosen) if options["origin"] or one.origin in ("import", "upload")]


def _adapt(pk: int) -> AdaptRun:
    adapt = AdaptRun.objects.select_related("device").filter(pk=pk).first()
    if adapt is None:
        raise CommandError(f"There is no adapt run {pk}.")
    return adapt
