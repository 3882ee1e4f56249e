"""`manage.py seal_problems [SLUG ...]`: derives sealed cases where they are missing, opened or of older rules."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.devices.benches import bench_for, close_benches
from judge.devices.models import Device
from judge.devices.services import DeviceMissing, device_get, devices_sync
from judge.evaluations.services import case_of
from judge.problems.models import Problem
from judge.problems.sealing import kinds_said, problem_seal, sealing_due
from judge.values import JudgeError

USABLE = ("admitted", "degenerate")


class Command(BaseCommand):
    help = "Derive sealed cases for problems that have passed their preflight on a device, where they are due."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("slugs", nargs="*", metavar="SLUG", help="problems; without one, all of them")
        parser.add_argument("--device", default="interpreter", help="interpreter (default) or cuda:N")

    def handle(self, *args: Any, **options: Any) -> None:
        devices_sync()
        try:
            device = device_get(name=options["device"])
        except DeviceMissing as error:
            raise CommandError(str(error)) from error
        try:
            failed = [row.slug for row in self._due(device, options["slugs"]) if not self._sealed(row, device)]
        finally:
            close_benches()
        if failed:
            raise CommandError(f"No sealed cases for {', '.join(failed)}. Run the command again.")

    def _due(self, device: Device, slugs: list[str]) -> list[Problem]:
        rows = Problem.objects.exclude(origin=Problem.Origin.SYNTHETIC).filter(quarantined_at=None).order_by("pk")
        if slugs:
            rows = rows.filter(slug__in=slugs)
            missing = sorted(set(slugs) - set(rows.values_list("slug", flat=True)))
            if missing:
                raise CommandError(f"There is no problem {', '.join(missing)} that is judged.")
        due = [row for row in rows if (row.report_for(device.name) or {}).get("state") in USABLE]
        due = [row for row in due if sealing_due(row, case_of(row, device))]
        self.stdout.write(f"{len(due)} of {len(rows)} problems are due on {device.name}.")
        return due

    def _sealed(self, problem: Problem, device: Device) -> bool:
        try:
            found = problem_seal(problem=problem, case=case_of(problem, device), bench=bench_for(device))
        except JudgeError as error:
            self.stderr.write(f"{problem.slug}: {error}")
            return False
        said = kinds_said(found.as_cases()) if found else ""
        self.stdout.write(f"{problem.slug}: {said or 'none that the reference takes'}")
        return True
