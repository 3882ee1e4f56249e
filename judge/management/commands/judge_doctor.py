"""`manage.py judge_doctor`: tries every protection of this machine, and says what to do about missing ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser

from adaexplore_site.core.private_files import faults
from judge.bench.sandboxing.minimum import required_layers
from judge.doctor.examine import device_names, examine
from judge.doctor.report import Fact


class Command(BaseCommand):
    help = (
        "Try each sandbox layer from inside a probe child per device, look at toolchain, GPU, memory exchange, disk "
        "and clock, and say what to change. Status 1 when a layer that JUDGE_MIN_SANDBOX asks for is missing or broken."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", action="append", help="interpreter, cuda:N or cpu; repeat for more (all)")
        parser.add_argument("--json", action="store_true", help="print the findings as JSON")

    def handle(self, *args: Any, **options: Any) -> None:
        known = device_names()
        devices = options["device"] or known
        strange = [name for name in devices if name not in (*known, "cpu")]
        if strange:
            raise CommandError(f"There is no device {', '.join(strange)} here. Known: {', '.join(known)}, cpu.")
        try:
            required = required_layers(settings.JUDGE_MIN_SANDBOX)
        except ValueError as error:
            raise CommandError(f"JUDGE_MIN_SANDBOX: {error}") from error
        report = examine(devices, required=required, target=settings.JUDGE_TARGET, known=_data_folder())
        if options["json"]:
            self.stdout.write(json.dumps(report.to_json(), indent=2))
        else:
            self.stdout.write("\n".join(report.lines()))
        if not report.healthy:
            raise SystemExit(1)


def _data_folder() -> list[Fact]:
    folder = Path(settings.DATA_DIR)
    found = [Fact("data folder", what, "bad", hint) for what, hint in faults(folder)]
    return found or [Fact("data folder", f"{folder}, for this account only")]
