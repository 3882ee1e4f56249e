"""What is sent on: follow-up tasks to the queue, hints to the pages. Services enqueue nothing themselves."""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

from celery import current_app
from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from kombu.exceptions import OperationalError
from redis.exceptions import RedisError

from adaexplore_site.actions.action import Result
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device

IO_QUEUE = "io"


@dataclass(frozen=True)
class FollowUp:
    """One task to send: `target` is a run id for advance, a campaign entry's for admit_entry, an adapt task's for
    compose_task and admit_task, a failure's for learn, a recheck's for recheck_kernel, else a node id.

    Sending it twice is harmless.
    """

    task: Literal[
        "advance", "propose", "judge_node", "admit_entry", "compose_task", "admit_task", "learn", "recheck_kernel"
    ]
    target: int
    queue: str = IO_QUEUE
    delay_s: float = 0.0
    expires_s: float | None = None  # not taken up by then it is dropped: another one is sent


log = logging.getLogger(__name__)

COMPILE_QUEUE = "compile"  # served beside GPUs only
COMPILE_S = 60.0  # later than that the judge has compiled it
CHECK_S = 3500.0  # the next hourly calibration is on its way by then


def send(follow_ups: Iterable[FollowUp]) -> None:
    """Enqueue follow-up tasks. When the broker is away they are only logged: the reaper sends them again."""
    for follow_up in follow_ups:
        try:
            if follow_up.task == "judge_node" and follow_up.queue.startswith("device.cuda"):
                current_app.send_task(
                    "search.tasks.compile_node", args=[follow_up.target], queue=COMPILE_QUEUE, expires=COMPILE_S
                )
            more = {} if follow_up.expires_s is None else {"expires": follow_up.expires_s}
            current_app.send_task(
                f"search.tasks.{follow_up.task}",
                args=[follow_up.target],
                queue=follow_up.queue,
                countdown=follow_up.delay_s or None,
                **more,
            )
        except OperationalError as error:
            log.warning("%s(%s) waits for the reaper: the broker is away (%s)", follow_up.task, follow_up.target, error)


def sent(message: str, follow_ups: Iterable[FollowUp], location: str = "") -> Result:
    """The result of an action whose follow-up tasks are sent after its transaction."""
    return Result(message, then=lambda: send(follow_ups), location=location)


def check_send(device: Device, asked: AuditEntry | None = None) -> bool:
    """Enqueue a check of the device on its own worker. False when the broker is away."""
    args = [device.pk, asked.pk if asked else None]
    try:
        current_app.send_task("search.tasks.check_device", args=args, queue=device.queue, expires=CHECK_S)
    except OperationalError as error:
        log.warning("the check of %s is not sent: the broker is away (%s)", device.name, error)
        return False
    return True


SEND_S = 0.3

Send = Callable[[str, dict[str, Any]], Awaitable[None]]


async def _send_to_layer(group: str, message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is not None:
        await layer.group_send(group, message)


class Publisher:
    """A thread with its own event loop. Hints of one run that wait merge into the newest."""

    def __init__(self, send: Send = _send_to_layer, limit_s: float = SEND_S) -> None:
        self.pid = os.getpid()
        self._send, self._limit_s = send, limit_s
        self._loop = asyncio.new_event_loop()
        self._waiting: dict[int, int] = {}
        self._lock = threading.Lock()
        self._sending = asyncio.Lock()
        self._failing = False
        self._thread = threading.Thread(target=self._loop.run_forever, name="hints", daemon=True)
        self._thread.start()

    def publish(self, run_id: int, seq: int) -> None:
        """Queue one hint and return at once."""
        with self._lock:
            idle = not self._waiting
            self._waiting[run_id] = max(seq, self._waiting.get(run_id, 0))
        if idle:
            asyncio.run_coroutine_threadsafe(self._drain(), self._loop)

    def close(self) -> None:
        """Send what waits, end the thread. Used by tests and commands."""
        asyncio.run_coroutine_threadsafe(self._drain(), self._loop).result(timeout=5)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(timeout=5)
        self._loop.close()

    async def _drain(self) -> None:
        async with self._sending:
            with self._lock:
                waiting, self._waiting = self._waiting, {}
            for run_id, seq in waiting.items():
                await self._send_one(run_id, seq)

    async def _send_one(self, run_id: int, seq: int) -> None:
        message = {"type": "run.hint", "run": run_id, "seq": seq}
        try:
            await asyncio.wait_for(self._send(f"run.{run_id}", message), self._limit_s)
        except (OSError, RedisError, ChannelFull, TimeoutError) as error:
            if not self._failing:
                log.warning("hints are not sent (%s: %s); pages fall back to looking", type(error).__name__, error)
            self._failing = True
        else:
            self._failing = False


_publisher: Publisher | None = None
_making = threading.Lock()


def publish(run_id: int, seq: int) -> None:
    """Hint that run `run_id` has reached event `seq`. Returns at once; never raises."""
    global _publisher
    with _making:
        if _publisher is None or _publisher.pid != os.getpid():  # a fork does not carry the thread over
            _publisher = Publisher()
        publisher = _publisher
    publisher.publish(run_id, seq)
