"""Races and stray accesses of one evaluation's candidate, looked for on request: queued, run on the device's worker,
stored beside the verdict, which stays as it is."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.text import clip, storable, storable_text
from judge.bench.processes.stopping import stoppable
from judge.bench.runner import Bench
from judge.bench.sanitizing.running import Sanitizer
from judge.bench.sanitizing.tool import sanitizer_path
from judge.devices.models import Device
from judge.evaluations.conditions import Layer, sandbox
from judge.evaluations.models import Evaluation, SanitizerCheck
from judge.evaluations.services import case_of
from judge.values import JudgeError, Stopped

if TYPE_CHECKING:
    from django.contrib.auth.models import User

GONE_AFTER_S = 3600  # a check that has not ended by then has lost its worker
OPEN = SanitizerCheck.OPEN
State = SanitizerCheck.State


def check_why_not(evaluation: Evaluation) -> str:
    """Why no check can be asked for; empty where one can."""
    device = evaluation.device
    if evaluation.elsewhere or not device.is_gpu:
        return _("Only kernels that were judged on a GPU here can be checked.")
    if device.remote:
        return _("%(name)s belongs to another machine: run compute-sanitizer there.") % {"name": device.name}
    if evaluation.problem.quarantined:
        return _("The problem is quarantined: nothing of it is run until it is released on its page.")
    if device.state == Device.State.QUARANTINED:
        return _("%(name)s is quarantined: nothing is run there until a check has passed.") % {"name": device.name}
    return ""


def check_queue(*, evaluation: Evaluation, user: User | None = None) -> SanitizerCheck | None:
    """A new row that waits for the device's worker; None when one is on its way. Raises ActionRefused."""
    why_not = check_why_not(evaluation)
    if why_not:
        raise ActionRefused(why_not)
    old = timezone.now() - timedelta(seconds=GONE_AFTER_S)
    late = SanitizerCheck.objects.filter(evaluation=evaluation, state__in=OPEN, asked_at__lt=old)
    late.update(state=State.FAILED, ended_at=timezone.now(), message="The worker ended before the check did.")
    try:
        with transaction.atomic():
            return SanitizerCheck.objects.create(evaluation=evaluation, asked_by=user)
    except IntegrityError:
        return None


def check_run(
    *, check: SanitizerCheck, bench_for: Callable[[Device], Bench], make: Callable[..., Sanitizer] = Sanitizer
) -> None:
    """Run it, on the worker of its device. One that is no longer queued is left alone; one that a person stops ends as
    that person left it. What the judge cannot do is the row's message."""
    mine = SanitizerCheck.objects.filter(pk=check.pk)
    if not mine.filter(state=State.QUEUED).update(state=State.RUNNING):
        return
    running = mine.filter(state=State.RUNNING)
    evaluation = check.evaluation
    lock: int | None = None
    try:
        with stoppable(lambda: not running.exists()):
            bench = bench_for(evaluation.device)
            bench.rest()  # what waits for the next evaluation holds memory of the GPU
            lock = bench.gpu_lock()
            sanitizer = make(evaluation.device.name, required=bench.minimum_sandbox, lock=lock)
            spec = evaluation.problem.spec(case_of(evaluation.problem, evaluation.device))
            report = sanitizer.check(spec, evaluation.source)
    except Stopped:
        return
    except JudgeError as error:
        _end(running, State.FAILED, message=clip(storable_text(str(error)), 600))
        return
    finally:
        if lock is not None:
            os.close(lock)
    _end(running, State.DONE, report=storable(report.to_json()))


def check_stop(*, evaluation: Evaluation, user: User | None) -> SanitizerCheck:
    """Stop the check that waits or runs: its worker ends its processes within a second. Raises ActionRefused."""
    with transaction.atomic():
        row = SanitizerCheck.objects.select_for_update().filter(evaluation=evaluation, state__in=OPEN).first()
        if row is None:
            raise ActionRefused(_("No check of this kernel waits or runs."))
        row.state, row.ended_at = State.FAILED, timezone.now()
        row.message = f"Stopped by {user.get_username()}." if user else "Stopped."
        row.save(update_fields=["state", "ended_at", "message"])
    return row


def _end(rows: Any, state: str, **fields: Any) -> None:
    rows.update(state=state, ended_at=timezone.now(), **fields)


def _not_installed() -> str:
    if sanitizer_path():
        return ""
    return _(
        "compute-sanitizer is not installed on this machine. It is part of NVIDIA's CUDA toolkit: install the package "
        "cuda-sanitizer of your CUDA version, then set CUDA_HOME or put it on the PATH."
    )


@dataclass(frozen=True)
class Shown:
    """What the page of an evaluation says: the last check, and why none can be asked for."""

    check: SanitizerCheck | None
    why_not: str
    runs: tuple[dict[str, Any], ...]
    layers: list[Layer]


def check_shown(evaluation: Evaluation) -> Shown | None:
    """None where kernels cannot be checked at all: no GPU, or judged elsewhere. One query."""
    if evaluation.elsewhere or not evaluation.device.is_gpu:
        return None
    check = evaluation.sanitizer_checks.select_related("asked_by").first()
    report = check.report if check is not None else {}
    why_not = check_why_not(evaluation) or _not_installed()
    runs = tuple(
        {
            **run,
            "kinds": sorted(run["findings"]["kinds"].items()),
            "kernels": sorted(run["findings"]["kernels"].items()),
            "lines": "\n".join(run["findings"]["lines"]),
        }
        for run in report.get("runs", ())
    )
    return Shown(check, why_not, runs, sandbox({"sandbox": report.get("layers")}))
