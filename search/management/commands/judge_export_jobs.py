"""`manage.py judge_export_jobs`: writes kernels as signed jobs for a device that no worker here serves."""

from __future__ import annotations

import os
from argparse import ArgumentTypeError
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone

from judge.batch.folder import Folder, write_whole
from judge.batch.services import Request, jobs_export, signed_line
from judge.devices.keys import BadKey
from judge.devices.models import Device
from judge.devices.services import enrolled_keys
from judge.problems.models import Problem
from search.fleet.exchange import KEPT, MEASURED_AGAIN, jobs_write
from search.fleet.remote import (
    NothingToSend,
    device_for,
    nodes_named,
    nodes_waiting,
    passes_of_problem,
    passes_of_run,
    requests_waiting,
)
from search.management.console import file_errors, refusals
from search.records.models import Run


class Command(BaseCommand):
    help = (
        "Write a job file (mode 0600: it holds sealed cases) for an enrolled device. --run N alone: the nodes that "
        "wait for the run's own device. --waiting: all that waits for the device, preflights too. With --device NAME: "
        "what passed in the run, or on the problem, to be measured there. A job whose outcome is still missing leaves "
        "again as the same job."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        what = parser.add_mutually_exclusive_group(required=True)
        what.add_argument("--run", type=int, metavar="N")
        what.add_argument("--problem", metavar="SLUG")
        what.add_argument("--waiting", action="store_true", help="what searches and preflights on --device wait for")
        parser.add_argument("--nodes", type=_numbers, metavar="3,7,12", help="only these nodes of the run")
        parser.add_argument("--top", type=int, metavar="K", help="only the K fastest that passed")
        parser.add_argument("--device", metavar="NAME", help="enrolled device (default: the run's own)")
        parser.add_argument(
            "--out", type=Path, required=True, metavar="FILE", help="job file to write, or a folder that is served"
        )
        parser.add_argument("--priority", type=_priority, default=MEASURED_AGAIN, help="in a folder: 0 first, 99 last")

    def handle(self, *args: Any, **options: Any) -> None:
        run = self._run(options["run"])
        with refusals(NothingToSend, BadKey):
            device = device_for(run=run, name=options["device"])
            key = enrolled_keys().get(device.name)
            if key is None:
                raise CommandError(
                    f"The key of {device.name} is gone. judge_enroll_device {device.name} makes another."
                )
            requests = self._requests(run, device, options)
            if barred := sorted({one.problem.slug for one in requests if one.problem.quarantined}):
                raise CommandError(f"{', '.join(barred)} is quarantined: nothing of it is run. Release it on its page.")
            jobs = jobs_export(requests=requests, device=device)
        if options["out"].is_dir():
            with file_errors(options["out"], "written"):
                jobs_write(Folder(options["out"]), jobs, key, options["priority"])
            self.stdout.write(f"{len(jobs)} jobs for {device.name} in {options['out']}")
            return
        _write(options["out"], b"".join(signed_line(row, key) + b"\n" for row in jobs))
        self.stdout.write(f"{len(jobs)} jobs for {device.name} in {options['out']} (mode 0600: keep it private)")

    def _run(self, number: int | None) -> Run | None:
        if number is None:
            return None
        run = Run.objects.select_related("problem", "device").filter(pk=number).first()
        if run is None:
            raise CommandError(f"There is no run {number}. The list is on the page /runs/.")
        return run

    def _requests(self, run: Run | None, device: Device, options: dict[str, Any]) -> list[Request]:
        top, numbers = options["top"], options["nodes"]
        if options["waiting"]:
            return requests_waiting(device=device, now=timezone.now())
        if run is None:
            if numbers:
                raise CommandError("--nodes goes with --run")
            problem = Problem.objects.filter(slug=options["problem"]).first()
            if problem is None:
                raise CommandError(f"There is no problem {options['problem']!r}. The list is on the page /problems/.")
            return passes_of_problem(problem=problem, top=top)
        if numbers:
            return nodes_named(run=run, numbers=numbers)
        if device.pk == run.device_id and top is None:
            return nodes_waiting(run=run)
        return passes_of_run(run=run, top=top)


def _priority(text: str) -> int:
    if not text.isdigit() or int(text) > 99 or int(text) in KEPT:
        raise ArgumentTypeError(f"{text!r} is no priority: 0 to 99, without those of searches ({KEPT[0]}, {KEPT[1]})")
    return int(text)


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isdigit() for part in parts):
        raise ArgumentTypeError(f"{text!r} is not a list of node numbers such as 3,7,12")
    return [int(part) for part in parts]


def _write(path: Path, data: bytes) -> None:
    """Private from its first byte, and whole or not there at all."""
    try:
        write_whole(path, data, mode=0o600, mark=str(os.getpid()))
    except OSError as error:
        raise CommandError(f"{path} cannot be written: {error.strerror}. The jobs can be exported again.") from error
