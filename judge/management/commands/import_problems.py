"""`manage.py import_problems PATH`: loads a KernelBench-style folder, a flat folder or one file."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.problems.services import folder_import
from judge.values import Gradients, Precision


class Command(BaseCommand):
    help = (
        "Import problems from PATH: folders level1/1_name.py, level2/... in numeric order, a flat folder of .py files, "
        "or one file. Nothing is run; files that are no problem are reported and skipped."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("path", type=Path)
        parser.add_argument(
            "--numerics",
            choices=[one.value for one in Precision],
            default=Precision.STRICT.value,
            help="where TF32 or 16 bits are allowed: strict (nowhere), shipped (as PyTorch ships), tf32 or half",
        )

        parser.add_argument(
            "--gradients",
            choices=[one.value for one in Gradients],
            default=Gradients.NONE.value,
            help="judge forward and backward as one, with gradients of inputs, parameters or all; none: forward alone",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        counts: Counter[str] = Counter()
        try:
            precision, gradients = Precision(options["numerics"]), Gradients(options["gradients"])
            for file in folder_import(path=options["path"], precision=precision, gradients=gradients):
                counts[file.state] += 1
                if file.state == "refused":
                    self.stderr.write(f"refused  {file.path}: {file.reason}")
                elif options["verbosity"] > 1 or file.state == "created":
                    self.stdout.write(f"{file.state:8} {file.path} -> {file.slug}")
        except FileNotFoundError as error:
            raise CommandError(f"{error}. Give a .py file or a folder that holds some.") from error
        total = ", ".join(f"{counts[state]} {state}" for state in ("created", "known", "refused"))
        self.stdout.write(total)
        if not counts["created"] + counts["known"]:
            raise CommandError(
                "Nothing could be imported: "
                + ("every file was refused." if counts else f"{options['path']} holds no .py file.")
            )
