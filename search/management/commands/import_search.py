"""Imports recorded searches, so that they can be browsed like any run, and looks whether their problems are real."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adaexplore_site.core.audit import ActionRefused
from judge.devices.benches import bench_for, close_benches
from judge.problems.admission import problem_admit
from judge.problems.models import Problem
from judge.values import JudgeError, Stopped
from search.interchange.imports import folder_import, search_import
from search.management.console import device_of, file_errors, refusals
from search.records.models import Run

DEVICE = "interpreter"  # every machine has it; shapes alone tell much where a problem is too large for it


class Command(BaseCommand):
    help = (
        "Import recorded searches: packed JSON (gzipped or not), a zipped run folder, a run folder (step_1_log.json), "
        "or a folder of such folders. The same search twice gives the same run. A refused one keeps no other back."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("files", nargs="+", type=Path, metavar="PATH")
        parser.add_argument(
            "--no-preflight",
            action="store_true",
            help="do not examine the problems: degenerate ones are flagged only once they are",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        problems: dict[int, Problem] = {}
        paths = list(_expanded(options["files"]))
        refused = []
        for path in paths:
            try:
                run = self._import(path)
            except CommandError as error:
                refused.append(str(error))
                continue
            if run.problem.state == Problem.State.PENDING and not run.problem.report_for(DEVICE):
                problems[run.problem_id] = run.problem
        if problems and not options["no_preflight"]:
            self._examine(list(problems.values()))
        if refused:
            count = f"{len(refused)} of {len(paths)} were not imported:\n" if len(paths) > 1 else ""
            raise CommandError(count + "\n".join(refused))

    def _import(self, path: Path) -> Run:
        last = Run.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
        with file_errors(path, "read"), refusals(ActionRefused):
            folder = path.is_dir()
            run = folder_import(folder=path) if folder else search_import(data=path.read_bytes(), name=path.name)
        known = "" if run.pk > last else " (already there)"
        self.stdout.write(f"{path.name}: run {run.pk}, {run.steps} steps, problem {run.problem.slug}{known}")
        return run

    def _examine(self, problems: list[Problem]) -> None:
        """The imported searches stand whatever comes of this."""
        device = device_of(DEVICE)
        try:
            for problem in problems:
                report = problem_admit(problem=problem, device=device, bench=bench_for(device))
                codes = ", ".join(flaw.code for flaw in report.flaws if flaw.flags) or report.reason
                self.stdout.write(f"{problem.slug}: {problem.state}{f' ({codes})' if codes else ''}")
        except (JudgeError, Stopped) as error:
            self.stderr.write(f"Their problems could not be examined: {error}")
        finally:
            close_benches()


def _expanded(paths: Iterable[Path]) -> Iterator[Path]:
    """Each path; of a folder that is no run folder, the run folders right below it in numeric order."""
    for path in paths:
        inside = (
            sorted(path.glob("*/step_1_log.json"), key=lambda log: _order(log.parent.name)) if path.is_dir() else []
        )
        if inside and not (path / "step_1_log.json").exists():
            yield from (log.parent for log in inside)
        else:
            yield path


def _order(name: str) -> tuple[list[int], str]:
    """`2_9` before `2_18`."""
    return [int(number) for number in re.findall(r"\d+", name)], name
