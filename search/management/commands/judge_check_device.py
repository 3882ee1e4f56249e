"""`manage.py judge_check_device`: a kernel against itself on one device, and its noise floor."""

from __future__ import annotations

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from adaexplore_site.core.audit import ActionRefused
from judge.devices.benches import bench_for
from judge.devices.models import Device, DeviceCheck
from search.fleet.services import device_check, device_check_ask
from search.management.console import device_of, refusals


class Command(BaseCommand):
    help = (
        "Measure a kernel against itself through the judge's own timing and print the noise floor of the device. "
        "Outside the allowed (JUDGE_NOISE_PERCENT) the device is quarantined; a device that the judge has quarantined "
        "is active again once it passes. Where nothing is timed, the kernel only has to be right. Status 1 when it "
        "does not pass."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--device", default="cuda:0", help="cuda:N, or interpreter (default: cuda:0)")
        parser.add_argument("--json", action="store_true", help="print one JSON object")

    def handle(self, *args: Any, **options: Any) -> None:
        device = device_of(options["device"])
        with refusals(ActionRefused):
            asked = device_check_ask(device=device, user=None)
        found = device_check(device=device, bench_for=bench_for, asked=asked)
        device.refresh_from_db()
        self.stdout.write(json.dumps(_row(found, device)) if options["json"] else _sentence(found, device))
        if not found.passed:
            raise SystemExit(1)


def _row(found: DeviceCheck, device: Device) -> dict[str, Any]:
    names = ("noise_floor", "allowed", "ratio", "ratio_low", "ratio_high", "pairs", "kernel_us", "gpu_errors")
    figures = {name: getattr(found, name) for name in (*names, "toolchain", "passed", "cause", "message")}
    return {"device": device.name, "state": device.state, "at": found.created_at.isoformat(), **figures}


def _sentence(found: DeviceCheck, device: Device) -> str:
    if found.noise_floor is not None and found.allowed is not None:
        text = (
            f"{device.name}: noise floor {found.noise_floor:.2%}, allowed {found.allowed:.2%}. A kernel of "
            f"{found.kernel_us:.1f} µs over itself: {found.ratio:.4f} [{found.ratio_low:.4f}, {found.ratio_high:.4f}], "
            f"{found.pairs} pairs, {found.toolchain}."
        )
    elif found.passed:
        text = f"{device.name}: nothing is timed here, so there is no noise floor. A kernel that is right passed."
    else:
        text = f"{device.name}: nothing was measured."
    if not found.passed:
        text += f"\n{found.message}"
    return f"{text}\n{device.name} is {device.state}."
