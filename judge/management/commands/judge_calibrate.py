"""`manage.py judge_calibrate`: how wrong modelled times are, and the constants that make them least so."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from judge.calibration.command import add_steps, run


class Command(BaseCommand):
    help = (
        "Calibrate the time model of the interpreter device in steps that can run on different machines; the same as "
        "`python -m judge.calibration`."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        add_steps(parser)

    def handle(self, *args: Any, **options: Any) -> None:
        status = run(argparse.Namespace(**options))
        if status:
            raise SystemExit(status)
