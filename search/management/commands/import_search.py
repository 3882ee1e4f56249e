"""Imports recorded searches, so that they can be browsed like any run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from search.models import Run
from search.services.actions import ActionRefused
from search.services.imports import search_import


class Command(BaseCommand):
    help = "Import recorded searches (packed JSON, gzipped or not). The same file twice gives the same run."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="FILE")

    def handle(self, *args: Any, **options: Any) -> None:
        for path in options["files"]:
            last = Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
            try:
                run = search_import(data=path.read_bytes(), name=path.name)
            except OSError as error:
                raise CommandError(f"{path} cannot be read: {error.strerror}.") from error
            except ActionRefused as error:
                raise CommandError(str(error)) from error
            known = "" if run.pk > last else " (already there)"
            self.stdout.write(f"{path.name}: run {run.pk}, {run.steps} steps, problem {run.problem.slug}{known}")
