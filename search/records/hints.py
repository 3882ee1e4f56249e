"""The only sender to the channel layer: tells whoever shows a run that there is something to read.

A hint is never needed for truth, so it never blocks: one daemon thread per process sends, each send is bounded, and
failure is logged once and ignored until a send succeeds again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

from channels.exceptions import ChannelFull
from channels.layers import get_channel_layer
from redis.exceptions import RedisError

log = logging.getLogger(__name__)

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
