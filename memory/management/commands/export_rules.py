"""Writes rules as a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from memory.rules.files import EXPORTS, export_note, rules_text


class Command(BaseCommand):
    help = "Export rules, one `rule||count` a line: those proposed and approved, or those of one state."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--state", choices=EXPORTS, default="living")
        parser.add_argument("-o", "--out", type=Path, metavar="FILE", help="where to write; default: standard output")

    def handle(self, *args: Any, **options: Any) -> None:
        text = rules_text(state=options["state"])
        path: Path | None = options["out"]
        if path is None:
            self.stdout.write(text, ending="")
        else:
            try:
                path.write_text(text, encoding="utf-8")
            except OSError as error:
                raise CommandError(f"{path} cannot be written: {error.strerror}.") from error
            self.stdout.write(f"{text.count(chr(10))} rules written to {path}.")
        export_note(state=options["state"], count=text.count("\n"), user=None)
