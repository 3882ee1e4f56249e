"""Starts, drives, steers and shows campaigns, with workers or without."""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adaexplore_site.core.audit import ActionRefused
from judge.devices.benches import bench_for, close_benches
from judge.devices.services import DeviceMissing, device_get, devices_sync
from judge.problems.models import Problem
from judge.problems.services import folder_import
from search.algorithm.params import SearchParams
from search.algorithm.presets import ALIASES, PRESELECTED, PRESETS, preset_get
from search.batches import campaigns as services
from search.batches.campaign_driver import Hands, drive_campaign
from search.batches.campaign_problems import Filter, by_slugs, filtered
from search.batches.campaign_rows import campaign_report, campaign_row, campaign_rows, entry_rows
from search.batches.models import Campaign, CampaignEntry
from search.engine.driver import alone
from search.proposers import get as get_proposer
from search.proposers.builtin.habits import DIALECT_HELP, DIALECTS
from search.records.models import Run
from search.records.queries import told_counts
from search.reports.document import report_text
from search.runs.memory_fields import memory_arguments, memory_chosen

WAITS = "Workers carry it on within seconds: keep `manage.py up` running."


class Command(BaseCommand):
    help = "Campaigns: many problems as one unit, under one budget of steps. See docs/adr/0022-campaigns.md."
    sleep = staticmethod(time.sleep)

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        start = verbs.add_parser("start", help="choose problems, start, and drive it here unless --detach")
        _choosing(start)
        _settings(start)
        for verb, about in (
            ("status", "progress, problems and report"),
            ("pause", "start nothing more, pause its searches"),
            ("resume", "go on, and drive it here unless --detach"),
            ("stop", "end it and its searches"),
        ):
            one = verbs.add_parser(verb, help=about)
            one.add_argument("id", type=int)
            if verb == "status":
                one.add_argument("--json", action="store_true")
            if verb == "resume":
                one.add_argument("--detach", action="store_true", help=WAITS)
        verbs.add_parser("list", help="all campaigns")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            getattr(self, f"_{options['verb']}")(options)
        except ActionRefused as error:
            raise CommandError(str(error)) from error

    def _start(self, options: dict[str, Any]) -> None:
        problems = self._problems(options)
        devices_sync()
        try:
            device = device_get(name=options["device"])
            params = SearchParams.from_texts(options["params"], preset_get(options["preset"]).params.to_json())
            memory = memory_chosen(options)
        except (DeviceMissing, ValueError) as error:
            raise CommandError(str(error)) from error
        campaign = services.campaign_start(
            problems=problems,
            device=device,
            proposer=options["proposer"],
            steps=options["steps"] or options["steps_each"] * len(problems),
            title=options["title"],
            seed=options["seed"],
            seeds=options["seeds"],
            params=params.to_json(),
            at_once=options["at_once"],
            concurrency=options["concurrency"],
            memory=memory,
            options={"dialect": options["dialect"]} if options["dialect"] else {},
            origin=Run.Origin.WEB if options["detach"] else Run.Origin.COMMAND,
        )
        self.stdout.write(f"campaign {campaign.pk}: {len(problems)} problems, {campaign.steps} steps")
        self._go(campaign, options["detach"])

    def _problems(self, options: dict[str, Any]) -> list[Problem]:
        """Those of a folder, of a list, or of a filter. Raises CommandError when nothing is chosen."""
        if options["folder"]:
            files = list(folder_import(path=_existing(options["folder"])))
            for file in files:
                if file.state == "refused":
                    self.stderr.write(f"refused  {file.path}: {file.reason}")
            return by_slugs([file.slug for file in files if file.slug])[0]
        if options["problems"]:
            problems, missing = by_slugs(options["problems"])
            if missing:
                raise CommandError(f"There is no problem {missing[0]!r}.")
            return problems
        chosen = Filter(options["level"], options["state"], options["origin"], options["match"])
        if chosen.empty:
            raise CommandError(
                "Choose problems: --folder, --problems, or a filter such as --level 2 or --origin sample."
            )
        return filtered(chosen)

    def _go(self, campaign: Campaign, detach: bool) -> None:
        """Hand over to the workers, or drive here; Ctrl-C pauses."""
        if detach:
            self.stdout.write(WAITS)  # beat begins it: what this process decided would have to be sent from here
            return
        hands = Hands(get_proposer, bench_for, self.sleep, self._admitting, _Teller(self))
        with alone():
            try:
                drive_campaign(campaign=campaign, hands=hands)
            except KeyboardInterrupt:
                if not Campaign.objects.get(pk=campaign.pk).ended:
                    services.campaign_pause(campaign=campaign, user=None)
                raise CommandError(f"Paused. Go on with: campaign resume {campaign.pk}", returncode=130) from None
            finally:
                close_benches()
        self._status({"id": campaign.pk, "json": False})
        left = Campaign.objects.get(pk=campaign.pk)
        if not left.ended:
            raise CommandError(f"The campaign waits: {left.device.name} is {left.device.state}, or a search is paused.")
        row = campaign_row(left)
        if row.unsearched == row.problems:
            raise CommandError(row.outcome)

    def _admitting(self, entry: CampaignEntry) -> None:
        self.say(f"preflight of {entry.problem.slug}")

    def say(self, line: str) -> None:
        """One line of progress."""
        self.stderr.write(line)
        self.stderr.flush()

    def _status(self, options: dict[str, Any]) -> None:
        campaign = _campaign(options["id"])
        if options["json"]:
            self.stdout.write(json.dumps(_document(campaign), indent=1))
            return
        row = campaign_row(campaign)
        self.stdout.write(_line(campaign))
        for item in entry_rows(campaign):
            steps = f"{item.summary.told}/{item.summary.steps}" if item.summary else "-"
            reason = f"  {item.entry.reason}" if item.entry.reason else ""
            self.stdout.write(f"  {item.entry.place:>3} {item.entry.problem.slug:<32} {item.state:<9} {steps}{reason}")
        if row.outcome:
            self.stdout.write(f"  {row.outcome}")
        if campaign.ended and row.unheld:
            self.stdout.write(f"  {row.unheld} steps left unspent")
        self.stdout.write("\n" + report_text(campaign_report(campaign)))

    def _pause(self, options: dict[str, Any]) -> None:
        services.campaign_pause(campaign=_campaign(options["id"]), user=None)
        self.stdout.write(_line(_campaign(options["id"])))

    def _resume(self, options: dict[str, Any]) -> None:
        campaign = services.campaign_resume(campaign=_campaign(options["id"]), user=None)
        self._go(campaign, options["detach"])

    def _stop(self, options: dict[str, Any]) -> None:
        services.campaign_stop(campaign=_campaign(options["id"]), user=None)
        self.stdout.write(_line(_campaign(options["id"])))

    def _list(self, options: dict[str, Any]) -> None:
        campaigns = list(Campaign.objects.select_related("device").order_by("pk"))
        for row in campaign_rows(campaigns):
            self.stdout.write(_line(row.campaign))


class _Teller:
    """Says each told node of a search once."""

    def __init__(self, command: Command) -> None:
        self._command, self._told = command, (0, 0)

    def __call__(self, run: Run) -> None:
        now = (run.pk, told_counts([run.pk]).get(run.pk, 0))
        if now != self._told and now[1]:
            self._command.say(f"search {run.pk}, {run.problem.slug}: {now[1]} of {run.steps} steps")
        self._told = now


def _choosing(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--problems", nargs="+", metavar="SLUG")
    parser.add_argument(
        "--folder", type=Path, metavar="PATH", help="import it first, take its problems in numeric order"
    )
    parser.add_argument("--level", default="", help="2 or level2")
    parser.add_argument("--state", default="", choices=["", *Problem.State.values])
    parser.add_argument("--origin", default="", choices=["", *Problem.Origin.values])
    parser.add_argument("--match", default="", metavar="TEXT", help="in title or slug")


def _settings(parser: argparse.ArgumentParser) -> None:
    budget = parser.add_mutually_exclusive_group(required=True)
    budget.add_argument("--steps", type=int, help="of all problems together")
    budget.add_argument("--steps-each", type=int, help="as a share of each")
    parser.add_argument("--device", default="interpreter")
    parser.add_argument("--proposer", default="builtin")
    parser.add_argument("--preset", default=PRESELECTED, choices=[*PRESETS, *ALIASES])
    parser.add_argument("--params", nargs="*", default=[], metavar="NAME=VALUE", help="over the preset")
    parser.add_argument("--seed", type=int)
    parser.add_argument("--seeds", default=Campaign.Seeds.SPREAD, choices=Campaign.Seeds.values)
    parser.add_argument("--at-once", type=int, default=1, help="searches at the same time, with workers")
    parser.add_argument("--concurrency", type=int, default=1, help="steps in flight of each search")
    parser.add_argument("--title", default="")
    parser.add_argument("--dialect", choices=DIALECTS, help=DIALECT_HELP)
    memory_arguments(parser)
    parser.add_argument("--detach", action="store_true", help=WAITS)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise CommandError(f"{path} does not exist. Give a .py file or a folder that holds some.")
    return path


def _campaign(pk: int) -> Campaign:
    campaign = Campaign.objects.select_related("device").filter(pk=pk).first()
    if campaign is None:
        raise CommandError(f"There is no campaign {pk}.")
    return campaign


def _line(campaign: Campaign) -> str:
    row = campaign_row(campaign)
    words = ", ".join(f"{count} {state}" for state, count in row.words)
    return (
        f"campaign {campaign.pk} ({campaign.title}): {campaign.state}, {row.done} of {row.problems} problems done, "
        f"{row.told} of {campaign.steps} steps; {words}"
    )


def _document(campaign: Campaign) -> dict[str, Any]:
    """Progress as plain JSON. The figures are `report --campaign ID --json`."""
    row = campaign_row(campaign)
    return {
        "id": campaign.pk,
        "title": campaign.title,
        "state": campaign.state,
        "outcome": row.outcome,
        "device": campaign.device.name,
        "proposer": campaign.proposer,
        "params": campaign.params,
        "memory": campaign.memory,
        "seed": campaign.seed,
        "seeds": campaign.seeds,
        "steps": campaign.steps,
        "told": row.told,
        "held": row.held,
        "unheld": row.unheld,
        "problems": [
            {
                "place": item.entry.place,
                "problem": item.entry.problem.slug,
                "state": item.state,
                "reason": item.entry.reason,
                "run": item.entry.run_id,
                "told": item.summary.told if item.summary else 0,
                "steps": item.summary.steps if item.summary else None,
            }
            for item in entry_rows(campaign)
        ],
    }
