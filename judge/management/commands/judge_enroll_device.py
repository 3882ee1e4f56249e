"""`manage.py judge_enroll_device NAME`: a device of another machine, and the key that its outcomes are signed with."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from judge.devices.carrying import serve_command
from judge.devices.models import Device, kinds
from judge.devices.services import EnrolmentRefused, device_enroll


class Command(BaseCommand):
    help = "Enroll a device of another machine: makes its row and its key file, and says what to do there."

    def add_arguments(self, parser: CommandParser) -> None:
        judging = [kind.value for kind in kinds(lambda traits: not traits.nothing_judged)]
        parser.add_argument("name", metavar="NAME", help="how it is called here, such as lab-h200")
        parser.add_argument("--arch", default="sm_90", help="its architecture (default sm_90)")
        parser.add_argument(
            "--class",
            dest="pooled",
            action="store_true",
            help="any GPU of one model with the same driver, torch and Triton; its first outcome says which",
        )
        parser.add_argument("--kind", choices=sorted(judging), default="cuda")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            device, path = device_enroll(
                name=options["name"],
                kind=Device.Kind(options["kind"]),
                arch=options["arch"],
                pooled=options["pooled"],
            )
        except EnrolmentRefused as error:
            raise CommandError(str(error)) from error
        there = "cuda:0" if device.is_gpu else "interpreter"
        self.stdout.write(
            f"{device.name} is enrolled. Its key is {path}, for this account only: whoever has it can sign outcomes.\n"
            "Copy it by a private road (scp -p) to the other machine, beside project and job file, then there:\n"
            f"  python -m judge.bench --device {there} --key {path.name} --jobs jobs.jsonl --out outcomes.jsonl\n"
            f"Jobs leave with: manage.py judge_export_jobs --waiting --device {device.name} --out jobs.jsonl\n"
            "and come back with: manage.py judge_import_outcomes outcomes.jsonl\n"
            f"Or through a shared folder: {serve_command(device, 'FOLDER')}"
        )
