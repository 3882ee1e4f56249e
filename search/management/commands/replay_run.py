"""Replays runs from their logs: makes every decision again and compares it, and every number, with what is stored."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from search.management.console import row_of
from search.records.models import Run
from search.replay.check import ReplayedRun, replay_run


class Command(BaseCommand):
    help = "Rebuild runs from their logs and compare every decision and number. Status 1 at the first difference."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("runs", nargs="+", type=int, metavar="RUN", help="number of a search")
        parser.add_argument("--json", action="store_true", help="one JSON object per run and line")

    def handle(self, *args: Any, **options: Any) -> None:
        differ = 0
        for number in options["runs"]:
            found = replay_run(row_of(Run.objects.all(), number, "search"))
            differ += not found.equal
            self.stdout.write(json.dumps(asdict(found)) if options["json"] else words(found))
        if differ:
            raise CommandError(f"{differ} of {len(options['runs'])} runs differ from their logs.")


def words(found: ReplayedRun) -> str:
    """What was replayed, what could not be, and the first difference."""
    lines = [f"run {found.run}: {found.events} events in the log, {found.told} nodes completed"]
    if found.imported:
        lines.append(
            f"  imported: parents {found.parents}/{found.decisions} as `uct` with the published parameters selects "
            "them; its draws were not recorded, so kinds and pools are not decided again"
        )
    else:
        lines.append(f"  decisions {found.agreed}/{found.decisions} made again with parent, kind, context and scores")
        lines.append(f"  steering actions {found.acts}, kernels written by hand {found.by_hand}")
        if found.rules:
            lines.append(f"  rules assigned again to {found.rules} prompts from the seed and the frozen rules")
    if found.first is None:
        lines.append("  verdicts, rewards, best so far, visits, totals, depths and budget are equal")
    else:
        first = found.first
        where = f"event {first.seq}" if first.seq else "the end"
        lines.append(f"  FIRST DIFFERENCE at {where}: {first.what}: replayed {first.ours!r}, stored {first.recorded!r}")
    return "\n".join(lines)
