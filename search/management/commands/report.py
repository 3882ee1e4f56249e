"""Prints the aggregates over a set of searches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from search.batches.models import Campaign
from search.management.console import file_errors, row_of
from search.records.models import Run
from search.reports.build import report_of, report_runs
from search.reports.page import report_csv, report_html, report_json, report_text
from search.reports.values import RULES


class Command(BaseCommand):
    help = (
        "Report over searches: the publication's aggregates, medians, audited versions and intervals, one block per "
        "basis and device. Definitions: docs/report.md."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        which = parser.add_mutually_exclusive_group(required=True)
        which.add_argument("--runs", nargs="+", type=int, metavar="ID")
        which.add_argument("--campaign", type=int, metavar="ID")
        which.add_argument("--all", action="store_true")
        form = parser.add_mutually_exclusive_group()
        form.add_argument("--json", action="store_true")
        form.add_argument("--csv", action="store_true")
        form.add_argument("--html", type=Path, metavar="FILE", help="one file, opens from disk, no scripts")
        parser.add_argument("--rule", choices=list(RULES), default="best", help="which of several searches counts")
        parser.add_argument(
            "--unassisted", action="store_true", help="leave out searches and kernels with manual influence"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        title, runs = _chosen(options)
        report = report_of(runs, title=title, rule=options["rule"], unassisted=options["unassisted"])
        if options["json"]:
            self.stdout.write(json.dumps(report_json(report), indent=1))
        elif options["csv"]:
            self.stdout.write(report_csv(report), ending="")
        elif options["html"]:
            with file_errors(options["html"], "written"):
                options["html"].write_text(report_html(report), encoding="utf-8")
            self.stdout.write(str(options["html"]))
        else:
            self.stdout.write(report_text(report))


def _chosen(options: dict[str, Any]) -> tuple[str, list[Run]]:
    """(title, searches). Raises CommandError for one that is not there."""
    if options["campaign"] is not None:
        campaign = row_of(Campaign.objects.all(), options["campaign"], "campaign")
        ids = campaign.entries.exclude(run=None).values_list("run", flat=True)
        return f"Campaign {campaign.pk}: {campaign.title}", report_runs(ids=ids)
    if options["all"]:
        return "All searches", report_runs()
    runs = report_runs(ids=options["runs"])
    missing = sorted(set(options["runs"]) - {run.pk for run in runs})
    if missing:
        raise CommandError(f"There is no search {', '.join(map(str, missing))}.")
    return f"Searches {', '.join(str(run.pk) for run in runs)}", runs
