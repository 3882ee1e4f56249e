"""Starts, drives, steers and shows campaigns, with workers or without."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError, CommandParser

from judge.devices.benches import bench_for
from judge.devices.services import DeviceMissing, device_get, devices_sync
from judge.problems.models import Problem
from judge.problems.services import folder_import
from search.algorithm.params import PRESELECTED, SearchParams, preset_get
from search.batches.campaigns import (
    CAMPAIGNS,
    CampaignRow,
    campaign_report,
    campaign_row,
    campaign_rows,
    campaign_start,
    entry_rows,
)
from search.batches.engine import Tools
from search.batches.models import Campaign, CampaignEntry
from search.batches.views import Filter, by_slugs, filtered
from search.management.commands._batch import WAITS, BatchCommand, batch_arguments, named
from search.management.console import JOBS, exchange_of
from search.proposers import get as get_proposer
from search.records.models import Run
from search.records.queries import told_counts
from search.reports.page import report_text
from search.runs.memory_fields import memory_arguments, memory_chosen


class Command(BatchCommand):
    help = "Campaigns: many problems as one unit, under one budget of steps. See docs/adr/0022-campaigns.md."
    source, how = CAMPAIGNS, "manage.py campaign resume {}"

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", required=True)
        start = verbs.add_parser("start", help="choose problems, start, and drive it here unless --detach")
        _choosing(start)
        _settings(start)
        for verb, about in (
            ("status", "progress, problems and report"),
            ("pause", "start nothing more, pause its searches"),
            ("resume", "resume, and drive it here unless --detach"),
            ("stop", "end it and its searches"),
        ):
            one = verbs.add_parser(verb, help=about)
            one.add_argument("id", type=int)
            if verb == "status":
                one.add_argument("--json", action="store_true")
            if verb == "resume":
                one.add_argument("--detach", action="store_true", help=WAITS)
                one.add_argument("--jobs", type=Path, metavar="FOLDER", help=JOBS)
        verbs.add_parser("list", help="all campaigns")

    def act(self, options: dict[str, Any]) -> None:
        verb = options["verb"]
        if verb == "start":
            self._start(options)
        elif verb == "list":
            for row in campaign_rows(list(Campaign.objects.order_by("pk"))):
                self.stdout.write(_line(row))
        elif verb == "status":
            self._status(self.find(options["id"]), options["json"])
        elif verb == "resume":
            self._go(CAMPAIGNS.resume(self.find(options["id"]), user=None), options["detach"], options["jobs"])
        else:
            change = CAMPAIGNS.pause if verb == "pause" else CAMPAIGNS.stop
            self.stdout.write(_line(campaign_row(change(self.find(options["id"]), user=None))))

    def _start(self, options: dict[str, Any]) -> None:
        problems = self._problems(options)
        devices_sync()
        try:
            device = device_get(name=options["device"])
            params = SearchParams.from_texts(options["params"], preset_get(options["preset"]).params.to_json())
            memory = memory_chosen(options)
        except (DeviceMissing, ValueError) as error:
            raise CommandError(str(error)) from error
        if not options["detach"]:
            exchange_of(device, options["jobs"])  # refused before anything is written
        campaign = campaign_start(
            problems=problems,
            device=device,
            steps=options["steps"] or options["steps_each"] * len(problems),
            **{name: options[name] for name in ("proposer", "title", "seed", "seeds", "at_once", "concurrency")},
            params=params.to_json(),
            memory=memory,
            origin=Run.Origin.WEB if options["detach"] else Run.Origin.COMMAND,
        )
        self.stdout.write(f"campaign {campaign.pk}: {len(problems)} problems, {campaign.steps} steps")
        self._go(campaign, options["detach"], options["jobs"])

    def _problems(self, options: dict[str, Any]) -> list[Problem]:
        """Those of a folder, of a list, or of a filter. Raises CommandError when nothing is chosen."""
        if options["folder"]:
            files = list(folder_import(path=_existing(options["folder"])))
            for file in files:
                if file.state == "refused":
                    self.stderr.write(f"refused  {file.path}: {file.reason}")
            return by_slugs([file.slug for file in files if file.slug])[0]
        if options["problems"]:
            return named(options["problems"])
        chosen = Filter(options["level"], options["state"], options["origin"], options["match"])
        if chosen.empty:
            raise CommandError(
                "Choose problems: --folder, --problems, or a filter such as --level 2 or --origin sample."
            )
        return filtered(chosen)

    def _go(self, campaign: Campaign, detach: bool, folder: Path | None = None) -> None:
        if detach:
            self.stdout.write(WAITS)  # beat begins it: what this process decided would have to be sent from here
            return
        tools = Tools(get_proposer, bench_for, self.sleep, _Reporter(self), self._admitting)
        left = self.drive(campaign, tools, folder)
        self._status(left, as_json=False)
        self.check_ended(left)
        row = campaign_row(left)
        if row.unsearched == row.problems:
            raise CommandError(row.outcome)

    def _admitting(self, entry: CampaignEntry) -> None:
        self.say(f"preflight of {entry.problem.slug}")

    def _status(self, campaign: Campaign, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(_document(campaign), indent=1))
            return
        row = campaign_row(campaign)
        self.stdout.write(_line(row))
        for item in entry_rows(campaign):
            steps = f"{item.summary.told}/{item.summary.steps}" if item.summary else "-"
            reason = f"  {item.entry.reason}" if item.entry.reason else ""
            self.stdout.write(
                f"  {item.entry.place:>3} {item.entry.problem.slug:<32} {item.entry.search_state:<9} {steps}{reason}"
            )
        if row.outcome:
            self.stdout.write(f"  {row.outcome}")
        if campaign.ended and row.unheld:
            self.stdout.write(f"  {row.unheld} steps left unspent")
        self.stdout.write("\n" + report_text(campaign_report(campaign)))


class _Reporter:
    """Reports each completed step of a search once."""

    def __init__(self, command: Command) -> None:
        self._command, self._last = command, (0, 0)

    def __call__(self, run: Run) -> None:
        now = (run.pk, told_counts([run.pk]).get(run.pk, 0))
        if now != self._last and now[1]:
            self._command.say(f"search {run.pk}, {run.problem.slug}: {now[1]} of {run.steps} steps")
        self._last = now


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
    parser.add_argument("--seeds", default=Campaign.Seeds.SPREAD, choices=Campaign.Seeds.values)
    batch_arguments(parser, preset=PRESELECTED)
    memory_arguments(parser)


def _existing(path: Path) -> Path:
    if not path.exists():
        raise CommandError(f"{path} does not exist. Give a .py file or a folder that holds some.")
    return path


def _line(row: CampaignRow) -> str:
    campaign, words = row.batch, ", ".join(f"{count} {state}" for state, count in row.states)
    return (
        f"campaign {campaign.pk} ({campaign.title}): {campaign.state}, {row.done} of {row.problems} problems done, "
        f"{row.completed} of {campaign.steps} steps; {words}"
    )


def _document(campaign: Campaign) -> dict[str, Any]:
    """Progress as plain JSON. The figures are `report --campaign ID --json`."""
    row = campaign_row(campaign)
    return {
        "id": campaign.pk,
        **{name: getattr(campaign, name) for name in ("title", "state", "proposer", "params", "memory")},
        **{name: getattr(campaign, name) for name in ("seed", "seeds", "steps")},
        "outcome": row.outcome,
        "device": campaign.device.name,
        "told": row.completed,
        "held": row.held,
        "unheld": row.unheld,
        "problems": [
            {
                "place": item.entry.place,
                "problem": item.entry.problem.slug,
                "state": item.entry.search_state,
                "reason": item.entry.reason,
                "run": item.entry.run_id,
                "told": item.summary.told if item.summary else 0,
                "steps": item.summary.steps if item.summary else None,
            }
            for item in entry_rows(campaign)
        ],
    }
