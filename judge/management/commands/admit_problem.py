"""`manage.py admit_problem SLUG`: runs the preflight of one problem in this process and prints every stage."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.devices.benches import bench_for, close_benches
from judge.devices.services import DeviceMissing, device_get, devices_sync
from judge.problems.admission import problem_admit
from judge.problems.models import Problem
from judge.values import AdmissionReport, JudgeError, StageRecord, Stopped

_MARKS = {"ok": "ok     ", "failed": "FAILED ", "warned": "warning", "skipped": "skipped"}


class Command(BaseCommand):
    help = "Preflight one problem on a device: each stage with its result, and the fix when one fails."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slug")
        parser.add_argument("--device", default="interpreter", help="interpreter (default) or cuda:N")
        parser.add_argument("--json", action="store_true", help="print the whole report as JSON instead")

    def handle(self, *args: Any, **options: Any) -> None:
        problem = Problem.objects.filter(slug=options["slug"]).first()
        if problem is None:
            raise CommandError(f"There is no problem {options['slug']!r}. The list is on the page /problems/.")
        devices_sync()
        on_stage = None if options["json"] else self._print
        try:
            device = device_get(name=options["device"])
            report = problem_admit(problem=problem, device=device, bench=bench_for(device), on_stage=on_stage)
        except (DeviceMissing, JudgeError, Stopped) as error:
            raise CommandError(str(error)) from error
        finally:
            close_benches()
        if options["json"]:
            self.stdout.write(json.dumps(report.to_json()))
        else:
            self._conclude(report)
        if report.state == "refused":
            raise CommandError(f"refused: {report.reason}")

    def _print(self, stage: StageRecord) -> None:
        self.stdout.write(f"{_MARKS[stage.state]} {stage.name:14} {stage.wall_ms:8.0f} ms  {stage.detail}")
        if stage.fix:
            self.stdout.write(f"{'':27} -> {stage.fix}")

    def _conclude(self, report: AdmissionReport) -> None:
        reason = f" ({report.reason}): {report.message}" if report.reason else ""
        self.stdout.write(f"{report.state}{reason} in {report.wall_ms:.0f} ms")
