"""Runs the Adapt stage in one command: composes tasks, searches them with and without memory, shows what that did."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import CommandError, CommandParser

from judge.devices.benches import bench_for
from judge.devices.services import DeviceMissing, device_get, devices_sync
from judge.problems.models import Problem
from judge.problems.services import samples_seed
from memory.adapt.models import AdaptRun, AdaptTask
from memory.prompting.choices import TRUST, MemoryChoice
from search.algorithm.params import SearchParams, preset_get
from search.batches.adapt_results import adapt_document, adapt_rows, effect_lines, progress_line, task_line
from search.batches.adapts import ADAPTS, CONTROL_STEPS, AdaptPlan, adapt_start, transfer_start
from search.batches.budgets import LIMITS
from search.batches.composers import write_task
from search.batches.engine import Tools
from search.batches.views import Filter, filtered
from search.management.commands._batch import WAITS, BatchCommand, batch_arguments, named
from search.management.console import exchange_of
from search.proposers import get as get_proposer
from search.records.models import Run
from search.records.queries import told_counts


class Command(BatchCommand):
    help = "Adapt: learn rules from failures on composed tasks, and measure whether they help. See docs/adr/0027."
    source, how = ADAPTS, "manage.py adapt --resume {}"

    def add_arguments(self, parser: CommandParser) -> None:
        one = parser.add_mutually_exclusive_group()
        one.add_argument("--resume", type=int, metavar="ID", help="resume an adapt run, also after a kill")
        one.add_argument("--status", type=int, metavar="ID", help="only show its progress")
        one.add_argument("--pause", type=int, metavar="ID")
        one.add_argument("--stop", type=int, metavar="ID")
        one.add_argument("--list", action="store_true", help="all adapt runs")
        one.add_argument("--transfer", type=int, metavar="ID", help="try what one has learned on given problems")
        _settings(parser)
        chosen = parser.add_argument_group("problems of a transfer; imported and uploaded ones when none is named")
        chosen.add_argument("--problems", nargs="+", metavar="SLUG")
        chosen.add_argument("--level", default="", help="2 or level2")
        chosen.add_argument("--origin", default="", choices=["", "import", "upload", "sample"])
        chosen.add_argument("--match", default="", metavar="TEXT", help="in title or slug")
        parser.add_argument("--json", action="store_true", help="print one JSON document, progress goes to stderr")

    def act(self, options: dict[str, Any]) -> None:
        if options["list"]:
            for row in adapt_rows(list(AdaptRun.objects.order_by("pk"))):
                self.stdout.write(progress_line(row))
        elif options["status"] is not None:
            self._show(self.find(options["status"]), options["json"])
        elif options["pause"] is not None:
            self._show(ADAPTS.pause(self.find(options["pause"]), user=None), options["json"])
        elif options["stop"] is not None:
            self._show(ADAPTS.stop(self.find(options["stop"]), user=None), options["json"])
        elif options["resume"] is not None:
            adapt = self.find(options["resume"])
            self._go(adapt if adapt.ended else ADAPTS.resume(adapt, user=None), options)
        else:
            self._go(self._start(options), options)

    def _start(self, options: dict[str, Any]) -> AdaptRun:
        devices_sync()
        samples_seed()
        plan = _plan(options)
        if not options["detach"]:
            exchange_of(plan.device, options["jobs"])  # refused before anything is written
        if options["transfer"] is not None:
            learned_by = self.find(options["transfer"])
            adapt = transfer_start(learned_by=learned_by, problems=_problems(options), plan=plan)
        else:
            adapt = adapt_start(plan=plan)
        control = f"and {adapt.control_steps} without memory" if adapt.control_steps else "and no comparison"
        self.say(f"adapt run {adapt.pk}: {adapt.tasks} tasks, {adapt.steps} steps each {control}, seed {adapt.seed}")
        return adapt

    def _go(self, adapt: AdaptRun, options: dict[str, Any]) -> None:
        if options["detach"]:
            self.stdout.write(f"adapt run {adapt.pk}. {WAITS}")
            return
        tools = Tools(get_proposer, bench_for, self.sleep, _Reporter(self), decided=self._decided, write=write_task)
        left = self.drive(adapt, tools, options["jobs"])
        self._show(left, options["json"])
        self.check_ended(left)
        if left.state == AdaptRun.State.STOPPED:
            raise CommandError(f"The adapt run was stopped. {left.stop_reason}")
        if not adapt_rows([left])[0].progress.attempted:
            raise CommandError(f"No task was attempted. {left.stop_reason}")

    def _show(self, adapt: AdaptRun, as_json: bool) -> None:
        document = adapt_document(adapt)
        if as_json:
            self.stdout.write(json.dumps(document, indent=1))
            return
        row = adapt_rows([adapt])[0]
        self.stdout.write(progress_line(row))
        if adapt.ended and not row.progress.attempted:
            for task in adapt.entries.filter(state=AdaptTask.State.REFUSED).order_by("place"):
                self.stdout.write(f"  {task_line(task)}")
        for line in effect_lines(document):
            self.stdout.write(line)

    def _decided(self, task: AdaptTask) -> None:
        line = task_line(task)
        if line:
            self.say(line)


class _Reporter:
    """Reports each search once it has ended."""

    def __init__(self, command: Command) -> None:
        self._command, self._last = command, 0

    def __call__(self, run: Run) -> None:
        told = told_counts([run.pk]).get(run.pk, 0)
        if told >= run.steps and run.pk != self._last:
            self._last = run.pk
            passed = run.nodes.filter(evaluation__verdict="pass").count()
            self._command.say(f"  {run.title} (search {run.pk}): {passed} of {told} attempts pass")


def _settings(parser: CommandParser) -> None:
    parser.add_argument("--tasks", type=int, default=200, help="tasks to attempt")
    parser.add_argument("--steps", type=int, default=25, help="of the search on each")
    parser.add_argument(
        "--control-steps", type=int, help=f"of a search without memory on each; {CONTROL_STEPS} when left out"
    )
    parser.add_argument(
        "--option",
        action="append",
        metavar="NAME=VALUE",
        help="of the proposer; the built-in one takes dialect=mixed when none is given, so that it makes mistakes",
    )
    parser.add_argument("--composer", default="builtin", choices=["builtin", "model"], help="what writes the tasks")
    parser.add_argument(
        "--limits", nargs="*", default=[], metavar="NAME=VALUE", help=f"of the run: {', '.join(LIMITS)}"
    )
    batch_arguments(parser, preset="adapt")
    usual = MemoryChoice()
    parser.add_argument("--trust", default="auto", choices=TRUST, help="auto: rules count before a person has decided")
    parser.add_argument("--threshold", type=int, default=usual.threshold, help="problems a rule must be seen on")
    parser.add_argument("--withhold", type=float, default=usual.withhold, help="probability of leaving a rule out")
    parser.add_argument("--budget-tokens", type=int, default=usual.budget_tokens, help="room for rules in a prompt")


def _plan(options: dict[str, Any]) -> AdaptPlan:
    same = ("proposer", "tasks", "steps", "control_steps", "seed", "composer", "at_once", "concurrency", "title")
    try:
        base = preset_get(options["preset"]).params.to_json()
        memory = {name: options[name] for name in ("trust", "threshold", "withhold", "budget_tokens")}
        return AdaptPlan(
            device=device_get(name=options["device"]),
            **{name: options[name] for name in same},
            params=SearchParams.from_texts(options["params"], base).to_json(),
            options=None if options["option"] is None else dict(_pair(text) for text in options["option"]),
            limits=dict(_pair(text) for text in options["limits"]),
            memory=MemoryChoice(uses=True, learns=True, **memory),
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
        return named(options["problems"])
    chosen = Filter(level=options["level"], origin=options["origin"], q=options["match"])
    return [one for one in filtered(chosen) if options["origin"] or one.origin in ("import", "upload")]
