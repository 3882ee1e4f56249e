"""Which toolchain a device judges with now, as rows tell: a preflight may be older than the last upgrade."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from itertools import pairwise

from judge.devices.models import Device, DeviceCheck
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem

UNKNOWN = ("", "as published")  # what imported rows hold


def toolchain_now(problem: Problem, device: Device) -> str:
    """The newest line among this problem's preflight there, the device's last evaluation and its last check.

    Empty when nothing was ever judged there. Two queries.
    """
    seen = [row for row in (_preflight(problem, device), *_newest(device)) if row[1] not in UNKNOWN]
    return max(seen, key=lambda row: row[0])[1] if seen else ""


def triton_in(toolchain: str) -> str:
    """ "3.6.0" in a line such as "torch 2.11.0 triton 3.6.0 sm_90"; empty when it is not named."""
    return next((after for word, after in pairwise(toolchain.split()) if word == "triton"), "")


def triton_on(device: Device) -> str:
    """Triton's version in what the device last judged or checked; empty before that. Two queries."""
    seen = [row for row in _newest(device) if row[1] not in UNKNOWN]
    return triton_in(max(seen, key=lambda row: row[0])[1]) if seen else ""


def _preflight(problem: Problem, device: Device) -> tuple[float, str]:
    environment = (problem.report_for(device.name) or {}).get("environment") or {}
    try:
        at = datetime.fromisoformat(str(environment.get("at"))).timestamp()
    except ValueError:
        at = 0.0
    return at, str(environment.get("toolchain") or "")


def _newest(device: Device) -> Iterable[tuple[float, str]]:
    for rows in (Evaluation.objects.filter(device=device), DeviceCheck.objects.filter(device=device)):
        found = rows.order_by("-id").values_list("created_at", "toolchain").first()
        if found is not None:
            yield found[0].timestamp(), found[1]
