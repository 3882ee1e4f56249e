"""Takes in a rule file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adaexplore_site.core.audit import ActionRefused
from memory.rules.files import rules_import


class Command(BaseCommand):
    help = "Import rules, one `rule||count` a line, as AdaExplore publishes its memory. They start as proposed."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        path: Path = options["file"]
        try:
            act = rules_import(data=path.read_bytes(), name=path.name, user=None)
        except OSError as error:
            raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
        except ActionRefused as error:
            raise CommandError(str(error)) from error
        made, known, changed = len(act.after["made"]), act.after["known"], act.after["changed"]
        self.stdout.write(
            f"{made} rules imported as proposed, {known} known already, {changed} of them with a new count."
        )
