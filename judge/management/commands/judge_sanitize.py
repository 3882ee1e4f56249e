"""`manage.py judge_sanitize EVALUATION`: one evaluation's kernel under compute-sanitizer, at once."""

from __future__ import annotations

import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from adaexplore_site.core.audit import ActionRefused
from judge.devices.benches import bench_for, close_benches
from judge.evaluations.models import Evaluation, SanitizerCheck
from judge.evaluations.sanitizing import check_queue, check_run
from judge.values.sanitizer import CheckState


class Command(BaseCommand):
    help = (
        "Run one evaluation's kernel under compute-sanitizer (memcheck and racecheck) on its GPU, here and now. The "
        "result is stored, and shown on the page of the evaluation. Exit status 1 when it reports an error."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("evaluation", type=int, help="number of the evaluation, as its page shows it")

    def handle(self, *args: Any, **options: Any) -> None:
        rows = Evaluation.objects.select_related("device", "problem")
        evaluation = rows.filter(pk=options["evaluation"]).first()
        if evaluation is None:
            raise CommandError(f"There is no evaluation {options['evaluation']}.")
        try:
            check = check_queue(evaluation=evaluation)
        except ActionRefused as error:
            raise CommandError(str(error)) from error
        if check is None:
            raise CommandError("A check of this kernel is already queued or running; its page shows it.")
        try:
            check_run(check=check, bench_for=bench_for)
        finally:
            close_benches()
        check.refresh_from_db()
        if check.state != SanitizerCheck.State.DONE:
            raise CommandError(check.message)
        for run in check.report["runs"]:
            kinds = ", ".join(f"{kind}: {count}" for kind, count in run["findings"]["kinds"].items())
            self.stdout.write(f"{run['tool']:10} {run['state']:8} {run['seconds']:6.1f} s  {kinds or run['detail']}")
            for line in run["findings"]["lines"]:
                self.stdout.write(f"    {line}")
        if check.report["state"] == CheckState.ERRORS:
            sys.exit(1)
