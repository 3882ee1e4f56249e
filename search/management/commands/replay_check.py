"""Replays recorded searches and counts the selected parents that come out the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from search.algorithm.params import SearchParams
from search.interchange.recording import RecordingRejected, read_recording
from search.management.console import refusals
from search.replay.check import replay_recording


class Command(BaseCommand):
    help = "Replay recorded searches (JSON or gzipped JSON) and print how many selected parents are reproduced."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
        parser.add_argument(
            "--params", nargs="*", default=[], metavar="NAME=VALUE", help="default: w=0.3 rho=1 alpha=0"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals(ValueError):
            params = SearchParams.from_texts(options["params"])
        steps = parents = contexts = 0
        for path in options["files"]:
            try:
                report = replay_recording(read_recording(path.read_bytes()), params)
            except (OSError, RecordingRejected) as error:
                raise CommandError(f"{path}: {error}") from error
            steps, parents, contexts = steps + report.steps, parents + report.parents, contexts + report.contexts
            self.stdout.write(_line(path.name, report.parents, report.contexts, report.steps))
            if report.first_miss:
                number, ours, theirs = report.first_miss
                self.stdout.write(f"  first difference at step {number}: selected {ours}, recorded {theirs}")
        self.stdout.write(_line("all", parents, contexts, steps))
        if parents != steps:
            raise CommandError(f"{steps - parents} of {steps} selected parents differ from the recording.")


def _line(name: str, parents: int, contexts: int, steps: int) -> str:
    return f"{name}: parents {parents}/{steps} ({parents / steps:.1%}), pools and windows {contexts}/{steps}"
