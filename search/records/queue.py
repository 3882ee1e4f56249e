"""The queue: enqueues follow-up tasks by name, so that no room needs to import the tasks of others."""

from __future__ import annotations

import logging
from collections.abc import Iterable

from celery import current_app
from kombu.exceptions import OperationalError

from adaexplore_site.actions.action import Result
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from search.records.follow_ups import Hop

log = logging.getLogger(__name__)

COMPILE_QUEUE = "compile"  # served beside GPUs only
COMPILE_S = 60.0  # later than that the judge has compiled it
CHECK_S = 3500.0  # the next hourly calibration is on its way by then


def send(hops: Iterable[Hop]) -> None:
    """Enqueue hops. When the broker is away they are only logged: the reaper sends them again."""
    for hop in hops:
        try:
            if hop.task == "judge_node" and hop.queue.startswith("device.cuda"):
                current_app.send_task(
                    "search.tasks.compile_node", args=[hop.target], queue=COMPILE_QUEUE, expires=COMPILE_S
                )
            more = {} if hop.expires_s is None else {"expires": hop.expires_s}
            current_app.send_task(
                f"search.tasks.{hop.task}", args=[hop.target], queue=hop.queue, countdown=hop.delay_s or None, **more
            )
        except OperationalError as error:
            log.warning("%s(%s) waits for the reaper: the broker is away (%s)", hop.task, hop.target, error)


def sent(message: str, hops: Iterable[Hop], location: str = "") -> Result:
    """The result of an action whose follow-up tasks are sent after its transaction."""
    return Result(message, then=lambda: send(hops), location=location)


def check_send(device: Device, asked: AuditEntry | None = None) -> bool:
    """Enqueue a check of the device on its own worker. False when the broker is away."""
    args = [device.pk, asked.pk if asked else None]
    try:
        current_app.send_task("search.tasks.check_device", args=args, queue=device.queue, expires=CHECK_S)
    except OperationalError as error:
        log.warning("the check of %s is not sent: the broker is away (%s)", device.name, error)
        return False
    return True
