"""Celery's doors to the judge's services: fetch the rows, call the service, nothing else."""

from __future__ import annotations

import logging
from typing import Any

from celery import shared_task
from celery.signals import worker_process_shutdown, worker_ready, worker_shutdown

from judge.devices.benches import bench_for, close_benches, rest_idle
from judge.devices.models import Device
from judge.devices.services import served_devices
from judge.evaluations.models import SanitizerCheck
from judge.evaluations.sanitizing import check_run
from judge.evaluations.services import case_of
from judge.problems.admission import admission_fail, problem_admit
from judge.problems.models import Problem
from judge.problems.sealing import problem_seal
from judge.selftest.entries import entries
from judge.selftest.models import SelfTest
from judge.selftest.services import selftest_run
from judge.values import JudgeError, Stopped

IDLE_S = 300.0  # a bench that judges nothing for so long lets go of what it kept for the next evaluation

log = logging.getLogger(__name__)


@shared_task(name="judge.tasks.admit_problem", acks_late=True)  # type: ignore[untyped-decorator]
def admit_problem(problem_id: int, device_id: int) -> None:
    """Preflight on a device; sent to `device.queue`. A row that is gone ends it quietly, and so does one that a person
    has stopped or quarantined meanwhile; a judge fault is shown."""
    problem = Problem.objects.filter(pk=problem_id).first()
    device = Device.objects.filter(pk=device_id).first()
    if problem is None or device is None or not device.judges:
        return
    if problem.quarantined:
        admission_fail(problem=problem, device=device, message="The problem is quarantined: nothing of it is run.")
        return
    try:
        problem_admit(problem=problem, device=device, bench=bench_for(device), waiting=True)
    except (JudgeError, Stopped):
        return  # stored as state "failed" with the message, for the page to show


@shared_task(name="judge.tasks.seal_problem", acks_late=True)  # type: ignore[untyped-decorator]
def seal_problem(problem_id: int, device_id: int) -> None:
    """New sealed cases in place of opened ones, on a device whose preflight the problem has passed."""
    problem = Problem.objects.filter(pk=problem_id).first()
    device = Device.objects.filter(pk=device_id).first()
    if problem is None or device is None or not device.judges or problem.quarantined:
        return
    try:
        problem_seal(problem=problem, case=case_of(problem, device), bench=bench_for(device))
    except JudgeError as error:
        log.warning("no sealed cases for %s on %s: %s", problem.slug, device.name, error)


@shared_task(name="judge.tasks.run_self_test", acks_late=True)  # type: ignore[untyped-decorator]
def run_self_test(selftest_id: int) -> None:
    """The whole self-test, on the worker of its device. A row that is gone or was begun before ends it quietly."""
    selftest = SelfTest.objects.select_related("device").filter(pk=selftest_id).first()
    if selftest is None:
        return
    try:
        selftest_run(selftest=selftest, found=entries())
    except JudgeError:
        return  # stored as state "failed" with the message, for the page to show


@shared_task(name="judge.tasks.sanitize_evaluation", acks_late=True)  # type: ignore[untyped-decorator]
def sanitize_evaluation(check_id: int) -> None:
    """A kernel's call under compute-sanitizer, on the worker of its device. A row that is gone or was begun before ends
    it quietly."""
    check = (
        SanitizerCheck.objects.select_related("evaluation__device", "evaluation__problem").filter(pk=check_id).first()
    )
    if check is not None:
        check_run(check=check, bench_for=bench_for)


@shared_task(name="judge.tasks.rest")  # type: ignore[untyped-decorator]
def rest() -> None:
    """Give back what this worker's idle benches hold."""
    rest_idle(IDLE_S)


@worker_ready.connect  # type: ignore[untyped-decorator]
def warm_up(sender: Any, **_: Any) -> None:
    """A device's worker starts its bench before the first job: loading torch and Triton takes seconds."""
    served = set(sender.app.amqp.queues.consume_from)
    for device in served_devices():
        if device.queue in served:
            try:
                bench_for(device).facts()
            except JudgeError as error:
                log.warning("the bench of %s does not start: %s", device.name, error)


@worker_process_shutdown.connect  # type: ignore[untyped-decorator]
@worker_shutdown.connect  # type: ignore[untyped-decorator]
def close_on_shutdown(**_: Any) -> None:
    """Pool processes leave without atexit: kill the bench children here."""
    close_benches()
