"""One hub per process and run: learns of new events, builds each frame once, wakes the sockets of the run.

A hint over the channel layer makes it quick; a timer makes it right when hints are lost or the layer is down.
Sockets hold only a cursor. A frame is a pure function of (run, cursor) and the rows, so all sockets at one cursor
share one build and the same bytes, and a slow socket that skipped frames gets one merged frame, read once more.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeVar

from django.db import Error as DatabaseFault
from django.db import close_old_connections, connections
from redis.exceptions import RedisError

from search.live import frames

P = ParamSpec("P")
T = TypeVar("T")


class Reads:
    """Runs synchronous selectors off the event loop, each in a thread that keeps its own database connection."""

    def __init__(self, threads: int = 4) -> None:
        self._threads = threads
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="live-read")

    async def __call__(self, read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """The value of `read(*args, **kwargs)`; its exceptions pass through."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, lambda: _with_fresh_connection(read, *args, **kwargs))

    def close(self) -> None:
        """Close every thread's connection and end the threads. Used by tests and on shutdown."""
        meet = threading.Barrier(self._threads)

        def end() -> None:
            meet.wait(timeout=10)  # holds each thread until all are here, so each closes its own connection
            connections.close_all()

        for _ in range(self._threads):
            self._pool.submit(end)
        self._pool.shutdown(wait=True)


def _with_fresh_connection(read: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    close_old_connections()
    try:
        return read(*args, **kwargs)
    finally:
        close_old_connections()


log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Pace:
    """Times of the live view, in seconds, and the number of frames a socket may leave unacknowledged."""

    frame_s: float = 0.25  # at most four frames a second
    poll_s: float = 2.0  # look at the row this often even without hints
    idle_s: float = 30.0  # a hub outlives its last socket by this
    beat_s: float = 10.0
    ack_s: float = 30.0
    hidden_ack_s: float = 120.0
    session_s: float = 60.0
    window: int = 2


class Hub:
    """Follows one run. `head` is the newest event number known here; `gone` says the run was deleted, `ended` that
    nothing is followed any more."""

    def __init__(self, run_id: int, *, reads: Reads, layer: Any, pace: Pace, on_idle: Callable[[Hub], None]) -> None:
        self.run_id = run_id
        self.head = 0
        self.gone = False
        self.ended = asyncio.Event()
        self.build: Callable[[int, int], frames.Frame] = frames.build
        self._reads, self._layer, self._pace, self._on_idle = reads, layer, pace, on_idle
        self._watchers: set[asyncio.Event] = set()
        self._hinted = asyncio.Event()
        self._hint_seq = 0
        self._builds: dict[int, asyncio.Task[frames.Frame]] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._ready: asyncio.Task[None] | None = None

    def join(self, wake: asyncio.Event) -> None:
        """Register a socket's event, which keeps the hub alive until `leave`. The first socket starts the hub."""
        self._watchers.add(wake)
        if self._ready is None:
            self._ready = asyncio.create_task(self._look())
            self._tasks = [asyncio.create_task(self._follow()), asyncio.create_task(self._listen())]

    async def ready(self) -> None:
        """Returns once `head` is known. After `join`."""
        assert self._ready is not None
        await asyncio.shield(self._ready)

    def leave(self, wake: asyncio.Event) -> None:
        self._watchers.discard(wake)

    async def frame(self, since: int) -> frames.Frame:
        """The frame from `since` to the newest event, built once for all sockets that stand at `since`."""
        build = self._builds.get(since)
        if build is None:
            build = self._builds[since] = asyncio.create_task(self._reads(self.build, self.run_id, since))
            build.add_done_callback(lambda done: self._forget_failed(since, done))
        return await asyncio.shield(build)

    def _forget_failed(self, since: int, build: asyncio.Task[frames.Frame]) -> None:
        if (build.cancelled() or build.exception()) and self._builds.get(since) is build:
            del self._builds[since]

    async def close(self) -> None:
        """Stop following. Sockets still joined are woken so that they can end."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _look(self) -> None:
        """Read the run's counter. A database that is away for a moment costs a look, not the hub."""
        try:
            seq = await self._reads(frames.head_of, self.run_id)
        except DatabaseFault as error:
            log.warning("run %s: cannot read its counter: %s", self.run_id, error)
            return
        if seq is None:
            self.gone = True
            self._wake_all()
        else:
            self._advance(seq)

    def _advance(self, seq: int) -> None:
        if seq > self.head:
            self.head = seq
            self._builds.clear()  # running builds go on for those who wait; newcomers get a newer frame
            self._wake_all()

    def _wake_all(self) -> None:
        for wake in self._watchers:
            wake.set()

    async def _follow(self) -> None:
        """Follow to the end. Should that end be a bug, the sockets close and the next one gets a new hub."""
        try:
            await self._advance_while_watched()
        except Exception:
            log.exception("run %s: its hub ended", self.run_id)
        self.ended.set()
        self._wake_all()
        self._on_idle(self)

    async def _advance_while_watched(self) -> None:
        """Advance on hints, at most once per `frame_s`; look at the row every `poll_s`; end when no socket is left."""
        loop = asyncio.get_running_loop()
        last_watched = last_frame = loop.time()
        while not self.gone:
            try:
                async with asyncio.timeout(self._pace.poll_s):
                    await self._hinted.wait()
            except TimeoutError:
                await self._look()
            else:
                await asyncio.sleep(max(0.0, last_frame + self._pace.frame_s - loop.time()))
                self._hinted.clear()
                self._advance(self._hint_seq)
                last_frame = loop.time()
            if self._watchers:
                last_watched = loop.time()
            elif loop.time() - last_watched >= self._pace.idle_s:
                break

    async def _listen(self) -> None:
        """Receive hints in a task of its own: cancelling `receive` would unsubscribe the channel."""
        if self._layer is None:
            return
        group, deaf = f"run.{self.run_id}", False
        while True:
            try:
                channel = await self._layer.new_channel()
                await self._layer.group_add(group, channel)
                deaf = False
                try:
                    while True:
                        hint = await self._layer.receive(channel)
                        self._hint_seq = max(self._hint_seq, int(hint.get("seq", 0)))
                        self._hinted.set()
                finally:
                    await self._layer.group_discard(group, channel)
            except (OSError, RedisError) as error:
                if not deaf:
                    log.warning("run %s: no hints (%s); looking every %s s", self.run_id, error, self._pace.poll_s)
                deaf = True
                await asyncio.sleep(self._pace.poll_s)


class Hubs:
    """The hubs of this process, by run."""

    def __init__(
        self,
        pace: Pace | None = None,
        layer: Callable[[], Any] | None = None,
        build: Callable[[int, int], frames.Frame] = frames.build,
    ) -> None:
        self.pace = pace or Pace()
        self.reads = Reads()
        self._layer, self._build = layer, build
        self._hubs: dict[int, Hub] = {}
        self._closing: set[asyncio.Task[None]] = set()

    def of(self, run_id: int) -> Hub:
        """The hub of a run, made on first use. Join it before the next await: it ends without sockets."""
        hub = self._hubs.get(run_id)
        if hub is None or hub.gone or hub.ended.is_set():
            layer = self._layer() if self._layer else None
            hub = Hub(run_id, reads=self.reads, layer=layer, pace=self.pace, on_idle=self._drop)
            hub.build = self._build
            self._hubs[run_id] = hub
        return hub

    def __len__(self) -> int:
        return len(self._hubs)

    def _drop(self, hub: Hub) -> None:
        if self._hubs.get(hub.run_id) is hub:
            del self._hubs[hub.run_id]
        task = asyncio.create_task(hub.close())
        self._closing.add(task)  # the loop keeps only weak references to tasks
        task.add_done_callback(self._closing.discard)

    async def close(self) -> None:
        """End all hubs and the reading threads."""
        for hub in list(self._hubs.values()):
            await hub.close()
        self._hubs.clear()
        self.reads.close()
