"""A stored admission entry as a page shows it: lines with tick or cross, what is still to come, what to do now."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Q
from django.db.models.fields.json import KeyTransform
from django.utils.translation import gettext as _

from judge.devices.benches import SILENT_S
from judge.devices.carrying import carried_by_itself, carry_commands
from judge.devices.models import Device
from judge.problems.admission import admission_stalled
from judge.problems.models import Problem

SILENT_AFTER_S = 8.0  # an idle device worker takes a waiting task within a second
UNFINISHED = frozenset({"queued", "running"})
DECIDED = frozenset({"admitted", "degenerate", "refused"})


@dataclass(frozen=True)
class Preflight:
    """One problem on one device. `state` is new, queued, running, stopped, failed, admitted, degenerate or refused."""

    problem: Problem
    device: Device
    state: str
    stages: tuple[dict[str, Any], ...]
    report: dict[str, Any]
    waited_s: float | None  # since it was queued or started; None when decided
    stalled: bool
    served: bool = False  # whether a worker of the device was heard of lately

    @property
    def unfinished(self) -> bool:
        """Whether the page should ask again soon."""
        return self.state in UNFINISHED and not self.stalled

    @property
    def decided(self) -> bool:
        """Whether there is a report."""
        return self.state in DECIDED

    @property
    def usable(self) -> bool:
        """Whether a search may run on this problem and device."""
        return self.state in {"admitted", "degenerate"} and not self.problem.quarantined

    @property
    def barred(self) -> bool:
        """Whether no search may run, and a preflight would not change that."""
        return self.state == "refused" or self.problem.quarantined

    def left_behind(self, since: datetime | None) -> bool:
        """Whether it still runs and was begun before `since`: by a process that is gone, for whoever works alone."""
        begun = self.report.get("started") if self.state == "running" else None
        return since is not None and bool(begun) and datetime.fromisoformat(str(begun)) < since

    @property
    def why_not(self) -> str:
        """Why no search may start here and what to do about it. Empty when one may, or when nobody knows yet."""
        if self.problem.quarantined:
            return _("This problem is quarantined. %(reason)s Release it on its page to have it judged again.") % {
                "reason": self.problem.quarantine_reason
            }
        if self.state == "refused":
            text = _(
                "The preflight on %(device)s refused this problem. %(said)sUpload a corrected module, or choose "
                "another device."
            )
        elif self.state == "stopped":
            text = _("The preflight on %(device)s came to no end. %(said)sCheck again before you start.")
        elif self.state == "failed":
            text = _("The preflight on %(device)s could not be run. %(said)sCheck again before you start.")
        else:
            return ""
        return text % {"device": self.device.name, "said": self._said}

    @property
    def _said(self) -> str:
        """The report's own text as a sentence with a blank after it; empty when it has none."""
        said = str(self.report.get("message") or self.report.get("reason") or "").strip()
        if not said:
            return ""
        if re.match(r"[a-z]+ ", said):  # it follows a sentence; names keep their case
            said = said[0].upper() + said[1:]
        return f"{said} " if said.endswith((".", "!", "?")) else f"{said}. "

    @property
    def carried(self) -> bool:
        """Whether it waits to be carried to the machine of its device, and its report back."""
        return self.state == "queued" and self.device.remote

    @property
    def by_itself(self) -> bool:
        return carried_by_itself()

    @property
    def commands(self) -> tuple[str, ...]:
        """What a person calls for one that is carried."""
        return carry_commands(self.device, f"--waiting --device {self.device.name}")

    @property
    def nobody_answers(self) -> bool:
        """Queued for so long that no worker can be serving the device: a busy one still beats."""
        waits = self.state == "queued" and not self.device.remote
        return waits and not self.served and (self.waited_s or 0) > SILENT_AFTER_S


def preflights_unfinished(devices: Sequence[Device], *, now: datetime) -> list[Preflight]:
    """Those that run or wait on the devices, without the lost ones. One query, which reads only the rows it names."""
    states = {f"state_{device.pk}": KeyTransform("state", KeyTransform(device.name, "admission")) for device in devices}
    asked = Q(pk__in=())
    for name in states:
        asked |= Q(**{f"{name}__in": sorted(UNFINISHED)})
    problems = Problem.objects.alias(**states).filter(asked).order_by("pk").defer("source")
    found = [preflight(problem, device, now=now) for problem in problems for device in devices]
    return [one for one in found if one.unfinished]


def preflight(problem: Problem, device: Device, *, now: datetime) -> Preflight:
    """What is known about `problem` on `device`."""
    entry = problem.report_for(device.name) or {}
    state = str(entry.get("state", "new"))
    started = entry.get("started") if state in UNFINISHED else None
    return Preflight(
        problem=problem,
        device=device,
        state=state,
        stages=tuple(entry.get("stages", ())),
        report=entry,
        waited_s=(now - datetime.fromisoformat(started)).total_seconds() if started else None,
        stalled=admission_stalled(entry, now=now),
        served=device.seen_at is not None and (now - device.seen_at).total_seconds() <= SILENT_S,
    )
