"""`manage.py policy_lab`: which policy finds more in as many steps, simulated on spaces whose every point is known."""

from __future__ import annotations

import json
import shlex
import time
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adaexplore_site.core import env
from search.lab.experiment import PAPER, USUAL, Cell, Findings, Plan, contenders_of, explore
from search.lab.models import lab_result_record
from search.lab.results import result_document, tables
from search.lab.spaces import Space, SpaceRejected, read_space, synthetic_spaces
from search.management.console import file_errors, refusals

FOLDER = "kernel_spaces"  # below ADAEXPLORE_FIXTURES


class Command(BaseCommand):
    help = (
        "Compare policies on simulated searches and store the result for the page /lab/. Spaces are Kernel Tuner T4 "
        "caches or the bundled synthetic landscapes. No language model takes part and nothing is claimed about one."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        spaces = parser.add_mutually_exclusive_group()
        spaces.add_argument(
            "--spaces", nargs="*", type=Path, metavar="FILE",
            help="T4 caches or folders of them; without a name those in $ADAEXPLORE_FIXTURES/kernel_spaces",
        )  # fmt: skip
        spaces.add_argument("--synthetic", action="store_true", help="the bundled landscapes (the default)")
        parser.add_argument(
            "--policies", nargs="+", default=list(USUAL), metavar="NAME",
            help="presets, policies, or either with changes: uct:reward=log,w=0.1 or default:pending=ignored",
        )  # fmt: skip
        parser.add_argument("--baseline", default=PAPER, metavar="NAME", help="what the others are compared with")
        parser.add_argument("--workers", nargs="+", type=int, default=[1, 4, 16, 32], help="steps in flight")
        parser.add_argument("--seeds", type=int, default=200)
        parser.add_argument("--first-seed", type=int, default=0, help="tune on some seeds, report on others")
        parser.add_argument("--steps", type=int, default=100)
        parser.add_argument("--skip-duplicates", action="store_true", help="draw again what was drawn before")
        parser.add_argument("--jobs", type=int, default=1, metavar="N", help="processes")
        parser.add_argument("--json", action="store_true", help="print the whole result as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        plan = _plan(options)
        if options["jobs"] < 1:
            raise CommandError("--jobs must be 1 or more.")
        findings, began = Findings(plan), time.monotonic()
        interrupted = False
        try:
            explore(plan, findings, jobs=options["jobs"], progress=self._tell)
        except KeyboardInterrupt:
            interrupted = True
        if not findings.curves:
            raise CommandError("Interrupted before anything was done; nothing is stored.", returncode=130)
        document = result_document(findings, seconds=time.monotonic() - began)
        row = lab_result_record(document=document, command=_command(options))
        self.stdout.write(json.dumps(document) if options["json"] else tables(document))
        self.stderr.write(f"Stored as result {row.pk}; /lab/{row.pk}/ shows it.")
        if interrupted:
            raise CommandError("Interrupted: what was done is stored and marked as partial.", returncode=130)

    def _tell(self, cell: Cell, done: int, total: int) -> None:
        self.stderr.write(f"[{done}/{total}] {cell.space.name}, {cell.workers} in flight, {cell.contender.name}")
        self.stderr.flush()


def _plan(options: dict[str, Any]) -> Plan:
    with refusals(ValueError):
        return Plan(
            spaces=_spaces(options["spaces"]),
            contenders=contenders_of(options["policies"], options["baseline"]),
            workers=tuple(dict.fromkeys(options["workers"])),
            seeds=options["seeds"],
            first_seed=options["first_seed"],
            steps=options["steps"],
            skip_duplicates=options["skip_duplicates"],
        )


def _spaces(paths: list[Path] | None) -> tuple[Space, ...]:
    if paths is None:
        return synthetic_spaces()
    found = []
    for path in _files(paths or [_fixtures()]):
        with file_errors(path, "read"), refusals(SpaceRejected):
            found.append(read_space(path))
    return tuple(found)


def _fixtures() -> Path:
    folder = env.text("ADAEXPLORE_FIXTURES")
    if not folder:
        raise CommandError("Name the files after --spaces, or set ADAEXPLORE_FIXTURES to a folder with kernel_spaces.")
    return Path(folder) / FOLDER


def _files(paths: list[Path]) -> list[Path]:
    files = []
    for path in paths:
        inside = sorted([*path.glob("*.json"), *path.glob("*.json.gz")]) if path.is_dir() else [path]
        if not inside:
            raise CommandError(f"{path} holds no .json or .json.gz file.")
        files += inside
    return files


def _command(options: dict[str, Any]) -> str:
    """The command that repeats the experiment, with file names only: folders differ from machine to machine."""
    spaces = options["spaces"]
    words = ["policy_lab", *(["--synthetic"] if spaces is None else ["--spaces", *(path.name for path in spaces)])]
    for name in ("policies", "baseline", "workers", "seeds", "first_seed", "steps"):
        value = options[name]
        words += [f"--{name.replace('_', '-')}", *map(str, value if isinstance(value, list) else [value])]
    words += ["--skip-duplicates"] if options["skip_duplicates"] else []
    return shlex.join(words)
