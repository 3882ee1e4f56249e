"""`manage.py judge_import_outcomes FILE`: imports what another machine judged, if every line is genuine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.batch.services import OutcomesRefused, outcomes_import
from judge.devices.keys import BadKey
from judge.devices.services import enrolled_keys
from judge.evaluations.measures import Measure
from judge.evaluations.models import Evaluation
from search.fleet.remote import jobs_lost, nodes_answered
from search.management.console import file_errors, refusals
from search.records.queue import send

MAX_BYTES = 1 << 30


class Command(BaseCommand):
    help = (
        "Import an outcome file: signature, nonce, job, device and protocol of every line must fit, else nothing is "
        "imported. Nodes that waited for an outcome are completed. The same file again changes nothing."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, metavar="FILE")
        parser.add_argument(
            "--accept-unsigned", action="store_true", help="keep unsigned outcomes to look at; they become no best"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        with refusals(OutcomesRefused, BadKey):
            done = outcomes_import(
                data=_read(options["file"]), keys=enrolled_keys(), accept_unsigned=options["accept_unsigned"]
            )
        told, follow_ups = nodes_answered(evaluations=done.evaluations, known=done.known)
        send([*follow_ups, *jobs_lost(lost=done.lost)])
        for job in done.preflights:
            report = job.problem.report_for(job.device.name) or {}
            self.stdout.write(f"preflight of {job.problem.slug} on {job.device.name}: {report.get('state')}")
        for row in (*done.evaluations, *done.unsigned):
            self.stdout.write(_line(row))
        self.stdout.write(
            f"{len(done.evaluations)} imported, {len(done.unsigned)} unsigned kept to look at, "
            f"{len(done.known)} known before; {len(told)} waiting nodes completed"
        )
        if done.lost:
            self.stdout.write(
                f"{len(done.lost)} met a fault of the judge there: no verdict. They leave again with the next export."
            )


def _read(path: Path) -> bytes:
    with file_errors(path, "read"):
        if path.stat().st_size > MAX_BYTES:
            raise CommandError(f"{path} is larger than {MAX_BYTES >> 30} GiB: import it in parts, split between lines.")
        return path.read_bytes()


def _line(row: Evaluation) -> str:
    measure = Measure.of(row)
    figure = f" {measure.whole}" if measure else ""
    return f"evaluation {row.pk}: {row.verdict}{f' {row.reason}' if row.reason else ''}{figure}"
