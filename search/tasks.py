"""Celery's doors to the search: call one service, send what it asks for. Any of them may be delivered twice."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from celery import current_app, shared_task
from celery.signals import worker_ready
from django.conf import settings
from django.utils import timezone
from kombu.exceptions import OperationalError

from adaexplore_site.core.models import AuditEntry
from judge.devices.benches import bench_for, heartbeat_start
from judge.devices.keys import BadKey
from judge.devices.services import served_devices
from memory.distil.distillers import InstalledNames, TableDistiller
from memory.distil.services import failure_learn
from search.batches.adapts import ADAPTS
from search.batches.budgets import budget_watch
from search.batches.campaigns import CAMPAIGNS
from search.engine.leases import reap as reap_now
from search.engine.steps import step_compile, step_judge, step_propose, step_reserve
from search.fleet.exchange import folder_exchange
from search.fleet.services import device_check
from search.proposers import get as get_proposer
from search.rechecks.services import recheck_run, rechecks_reap
from search.records.queue import check_send, send

log = logging.getLogger(__name__)

REST_S = 240.0  # the next time to ask is near by then


@shared_task(name="search.tasks.advance")  # type: ignore[untyped-decorator]
def advance(run_id: int) -> None:
    """Reserve the next steps of a run."""
    send(step_reserve(run_id=run_id))


@shared_task(name="search.tasks.propose")  # type: ignore[untyped-decorator]
def propose(node_id: int) -> None:
    """Call the proposer for a node."""
    send(step_propose(node_id=node_id, proposer_for=get_proposer))
    follow(node_id)


@shared_task(name="search.tasks.judge_node")  # type: ignore[untyped-decorator]
def judge_node(node_id: int) -> None:
    """Judge a node; sent to the queue of its device."""
    send(step_judge(node_id=node_id, bench_for=bench_for))
    follow(node_id)


def follow(node_id: int) -> None:
    """What goes on when a search of many has ended with this node."""
    send(CAMPAIGNS.follow(node_id))
    send(ADAPTS.follow(node_id))


@shared_task(name="search.tasks.admit_entry", acks_late=True)  # type: ignore[untyped-decorator]
def admit_entry(entry_id: int) -> None:
    """Preflight a campaign's problem; sent to the queue of its device."""
    send(CAMPAIGNS.admit(entry_id, bench_for=bench_for))


@shared_task(name="search.tasks.learn")  # type: ignore[untyped-decorator]
def learn(failure_id: int) -> None:
    """Learn from a failure of a search that learns."""
    failure_learn(failure_id=failure_id, distiller=TableDistiller(InstalledNames()))


@shared_task(name="search.tasks.compose_task", acks_late=True)  # type: ignore[untyped-decorator]
def compose_task(task_id: int) -> None:
    """Write a task of an adapt run."""
    send(ADAPTS.compose(task_id))


@shared_task(name="search.tasks.admit_task", acks_late=True)  # type: ignore[untyped-decorator]
def admit_task(task_id: int) -> None:
    """Preflight a task of an adapt run; sent to the queue of its device."""
    send(ADAPTS.admit(task_id, bench_for=bench_for))


@shared_task(name="search.tasks.compile_node")  # type: ignore[untyped-decorator]
def compile_node(node_id: int) -> None:
    """Compile a node's kernel while it waits for its device."""
    step_compile(node_id=node_id, bench_for=bench_for)


@shared_task(name="search.tasks.recheck_kernel", acks_late=True)  # type: ignore[untyped-decorator]
def recheck_kernel(recheck_id: int) -> None:
    """Judge a kernel once more; sent to the queue of its device."""
    recheck_run(recheck_id=recheck_id, bench_for=bench_for)


@shared_task(name="search.tasks.reap")  # type: ignore[untyped-decorator]
def reap() -> None:
    """Put back to work what lost its worker: each 5 s, like the five below. What fails in one keeps no other back."""
    send(reap_now())


@shared_task(name="search.tasks.reap_rechecks")  # type: ignore[untyped-decorator]
def reap_rechecks() -> None:
    """The same for kernels that are judged once more."""
    send(rechecks_reap(now=timezone.now()))


@shared_task(name="search.tasks.watch_budget")  # type: ignore[untyped-decorator]
def watch_budget() -> None:
    """Look at the budget of all searches."""
    budget_watch(now=timezone.now())


@shared_task(name="search.tasks.carry_campaigns")  # type: ignore[untyped-decorator]
def carry_campaigns() -> None:
    """Advance all campaigns."""
    send(CAMPAIGNS.advance_all())


@shared_task(name="search.tasks.carry_adapts")  # type: ignore[untyped-decorator]
def carry_adapts() -> None:
    """Advance all adapt runs."""
    send(ADAPTS.advance_all())


@shared_task(name="search.tasks.carry_jobs")  # type: ignore[untyped-decorator]
def carry_jobs() -> None:
    """Exchange jobs and outcomes with other machines through the shared folder, if there is one."""
    if not settings.JUDGE_FOLDER:
        return
    try:
        done = folder_exchange(root=Path(settings.JUDGE_FOLDER), now=timezone.now())
    except (OSError, BadKey) as error:
        log.warning("jobs in %s are not carried: %s", settings.JUDGE_FOLDER, error)
        return
    send(done.follow_ups)


@shared_task(name="search.tasks.check_devices")  # type: ignore[untyped-decorator]
def check_devices() -> None:
    """Ask the worker of every device that measures for a calibration; beat calls it every hour."""
    for device in served_devices():
        if device.measures:
            check_send(device)


@shared_task(name="search.tasks.rest_devices")  # type: ignore[untyped-decorator]
def rest_devices() -> None:
    """Ask every device's worker to let go of what it kept for a next evaluation, if it has been idle."""
    for device in served_devices():
        try:
            current_app.send_task("judge.tasks.rest", queue=device.queue, expires=REST_S)
        except OperationalError as error:
            log.warning("the broker is away (%s): no worker is asked to rest", error)
            return


@shared_task(name="search.tasks.check_device", acks_late=True)  # type: ignore[untyped-decorator]
def check_device(device_id: int, action_id: int | None = None) -> None:
    """Calibrate a device on its worker; with the action of a person who asked, passing ends its quarantine."""
    device = served_devices().filter(pk=device_id).first()
    if device is not None:
        asked = AuditEntry.objects.filter(pk=action_id).first() if action_id is not None else None
        device_check(device=device, bench_for=bench_for, asked=asked)


@worker_ready.connect  # type: ignore[untyped-decorator]
def beat_first(sender: Any, **_: Any) -> None:
    """A worker says from now on that it serves its devices."""
    served = set(sender.app.amqp.queues.consume_from)
    heartbeat_start([device.pk for device in served_devices() if device.queue in served])


@worker_ready.connect  # type: ignore[untyped-decorator]
def check_first(sender: Any, **_: Any) -> None:
    """A worker calibrates the devices that it times kernels on before it takes its first job."""
    served = set(sender.app.amqp.queues.consume_from)
    for device in served_devices():
        if device.measures and device.queue in served:
            device_check(device=device, bench_for=bench_for)
