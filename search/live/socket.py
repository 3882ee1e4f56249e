"""The run's websocket: a plain ASGI application behind Channels' routing, origin check and auth stack.

Text frames of JSON. From the server: hello, frame, beat, resync, paused. From the browser: ack {to}, pace {fps}, pause,
resume {since}. A socket holds a cursor, never a queue: whatever it missed is read again from the rows.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qs

from channels.layers import get_channel_layer
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY, get_user_model
from django.contrib.sessions.models import Session
from django.db import Error as DatabaseFault
from django.urls import path, re_path
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from adaexplore_site.core.access import Role, can
from search.live.hub import Hubs, Reads
from search.records.models import Run

log = logging.getLogger(__name__)

SIGNED_OUT, NOT_ALLOWED, GONE = 4401, 4403, 4404


def access(user: Any, run_id: int) -> int | None:
    """The close code for a user who may not watch this run, or None when watching is fine."""
    if user is None or not user.is_authenticated:
        return SIGNED_OUT
    if not can(user, Role.VIEWER):
        return NOT_ALLOWED
    if not Run.objects.filter(pk=run_id).exists():
        return GONE
    return None


def signed_out(session_keys: set[str]) -> set[str]:
    """Those keys whose session has ended, whose user is gone or inactive, or whose password has changed."""
    rows = Session.objects.filter(session_key__in=session_keys, expire_date__gt=timezone.now())
    sessions = {row.session_key: row.get_decoded() for row in rows}
    model = get_user_model()
    ids = {data[SESSION_KEY] for data in sessions.values() if SESSION_KEY in data}
    users = {str(user.pk): user for user in model._default_manager.filter(pk__in=ids, is_active=True)}

    def valid(key: str) -> bool:
        data = sessions.get(key, {})
        user = users.get(str(data.get(SESSION_KEY)))
        return user is not None and constant_time_compare(
            data.get(HASH_SESSION_KEY, ""),
            user.get_session_auth_hash(),
        )

    return {key for key in session_keys if not valid(key)}


@dataclass(eq=False)
class _Watched:
    session_key: str
    close: Callable[[], None]


class Sessions:
    """Looks at the sessions of all open sockets every `every_s` seconds and closes those that have ended."""

    def __init__(self, reads: Reads, *, every_s: float) -> None:
        self._reads, self._every_s = reads, every_s
        self._watched: set[_Watched] = set()
        self._task: asyncio.Task[None] | None = None

    @contextmanager
    def watch(self, scope: dict[str, Any], close: Callable[[], None]) -> Iterator[None]:
        """Keep an eye on the session of `scope` while the block runs; `close()` once it has ended."""
        session = scope.get("session")
        entry = _Watched(getattr(session, "session_key", None) or "", close)
        self._watched.add(entry)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._check_while_watched())
        try:
            yield
        finally:
            self._watched.discard(entry)

    async def _check_while_watched(self) -> None:
        while True:
            await asyncio.sleep(self._every_s)
            if not self._watched:
                return
            try:
                ended = await self._reads(signed_out, {entry.session_key for entry in self._watched})
            except DatabaseFault as error:
                log.warning("cannot check sessions now: %s", error)
                continue
            for entry in self._watched:
                if entry.session_key in ended:
                    entry.close()


VERSION = 1
MAX_MESSAGE_BYTES = 1024
MAX_MESSAGES_PER_S = 10
# A server may close with 1000 and 3000-4999 only (RFC 6455, 7.4): autobahn refuses to send 1008, 1011 and 1013.
INTERNAL, SLOW, POLICY, OLD_CLIENT = 4500, 4408, 4400, 4409

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]


class RunSocket:
    """ASGI application of `/ws/run/<run_id>?since=<seq>&v=1`. One instance serves all sockets of a process."""

    def __init__(self, hubs: Hubs) -> None:
        self.hubs = hubs
        self.sessions = Sessions(hubs.reads, every_s=hubs.pace.session_s)

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if (await receive())["type"] != "websocket.connect":
            return
        run_id = int(scope["url_route"]["kwargs"]["run_id"])
        query = parse_qs(scope.get("query_string", b"").decode("latin-1"))
        await send({"type": "websocket.accept"})  # a close code reaches the browser only after accept
        refusal = await self._refusal(scope, run_id, query)
        if refusal:
            await send({"type": "websocket.close", "code": refusal})
            return
        line = Line(self.hubs, run_id, _number(query.get("since", ["0"])[0]), send)
        with self.sessions.watch(scope, lambda: line.close(SIGNED_OUT)):
            await line.serve(receive)

    async def _refusal(self, scope: dict[str, Any], run_id: int, query: dict[str, list[str]]) -> int | None:
        if query.get("v", ["1"])[0] != str(VERSION):
            return OLD_CLIENT
        try:
            return await self.hubs.reads(access, scope.get("user"), run_id)
        except DatabaseFault as error:
            log.warning("run %s: socket refused, the database is away: %s", run_id, error)
            return INTERNAL


async def no_such_socket(scope: dict[str, Any], receive: Receive, send: Send) -> None:
    """The ASGI application of every other websocket address: the handshake is refused with 403."""
    await receive()
    await send({"type": "websocket.close"})


class Line:
    """One open socket: a reading task that changes its wishes, and a writing task that serves them."""

    def __init__(self, hubs: Hubs, run_id: int, since: int, send: Send) -> None:
        self.hub, self.pace, self._send = hubs.of(run_id), hubs.pace, send
        self.cursor: int | None = since  # newest event sent; None after a resync until the browser has a snapshot
        self.paused = False
        self.close_code: int | None = None
        self._announced_new = 0
        self._frame_gap_s = 0.0
        self._next_frame = 0.0
        self._unacked: deque[tuple[int, float]] = deque()  # (to, when sent)
        self._wake = asyncio.Event()
        self._received: deque[float] = deque(maxlen=MAX_MESSAGES_PER_S * 2)

    def close(self, code: int) -> None:
        """Ask the writer to end the socket with this code."""
        self.close_code = self.close_code or code
        self._wake.set()

    async def serve(self, receive: Receive) -> None:
        """Until the browser leaves or the writer closes."""
        self.hub.join(self._wake)
        writer = asyncio.create_task(self._write())
        reader = asyncio.create_task(self._read(receive))
        try:
            done, _ = await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()  # a bug rises
        finally:
            self.hub.leave(self._wake)
            for task in (writer, reader):
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task

    async def _read(self, receive: Receive) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            now = time.monotonic()
            flood = len(self._received) == self._received.maxlen and now - self._received[0] < 2.0
            self._received.append(now)
            text = message.get("text") or ""
            if flood or not text or len(text) > MAX_MESSAGE_BYTES:
                self.close(POLICY)
                continue
            try:
                wish = json.loads(text)
            except (ValueError, RecursionError):
                wish = None
            if not isinstance(wish, dict) or not self._obey(wish):
                self.close(POLICY)

    def _obey(self, wish: dict[str, Any]) -> bool:
        """Change what the writer does next. False for a message that is not of this protocol."""
        match wish.get("type"):
            case "ack":
                to = _number(wish.get("to"))
                while self._unacked and self._unacked[0][0] <= to:
                    self._unacked.popleft()
            case "pace":
                fps = wish.get("fps")
                self._frame_gap_s = 1.0 / fps if isinstance(fps, int | float) and 0.1 <= fps < 4 else 0.0
            case "pause":
                self.paused, self._announced_new = True, 0
            case "resume":
                self.paused, self.cursor = False, _number(wish.get("since"))
                self._unacked.clear()
            case _:
                return False
        self._wake.set()
        return True

    async def _write(self) -> None:
        await self.hub.ready()
        await self._json(type="hello", run=self.hub.run_id, head=self.hub.head, v=VERSION, time=_now_ms())
        beat_at = time.monotonic() + self.pace.beat_s
        while True:
            code = self._must_close()
            if code:
                await self._send({"type": "websocket.close", "code": code})
                return
            if time.monotonic() >= beat_at:
                await self._json(type="beat", head=self.hub.head, t=_now_ms())
                beat_at = time.monotonic() + self.pace.beat_s
            self._wake.clear()
            if self.paused:
                await self._announce()
            elif self._may_send() and not await self._send_frame():
                return
            await self._sleep(beat_at)

    def _must_close(self) -> int | None:
        if self.hub.gone:
            return GONE
        if self.hub.ended.is_set():
            return INTERNAL
        patience = self.pace.hidden_ack_s if self._frame_gap_s >= 1 else self.pace.ack_s
        if self._unacked and time.monotonic() - self._unacked[0][1] > patience:
            return SLOW
        return self.close_code

    def _may_send(self) -> bool:
        behind = self.cursor is not None and self.cursor < self.hub.head
        return behind and len(self._unacked) < self.pace.window and time.monotonic() >= self._next_frame

    async def _send_frame(self) -> bool:
        """Send what lies between the cursor and now. False when the database failed and the socket was closed."""
        since = self.cursor
        assert since is not None  # _may_send
        try:
            frame = await self.hub.frame(since)
        except DatabaseFault as error:
            log.warning("run %s: no frame from %s: %s", self.hub.run_id, since, error)
            await self._send({"type": "websocket.close", "code": INTERNAL})
            return False
        except Run.DoesNotExist:
            await self._send({"type": "websocket.close", "code": GONE})
            return False
        if self.paused or self.cursor != since:  # the browser changed its mind meanwhile
            self._wake.set()
            return True
        if frame.to > since or frame.resync:
            await self._send({"type": "websocket.send", "text": frame.text})
        if frame.resync:
            self.cursor = None
            return True
        self.cursor = frame.to
        now = time.monotonic()
        self._unacked.append((frame.to, now))
        self._next_frame = now + self._frame_gap_s
        if frame.to < self.hub.head:
            self._wake.set()
        return True

    async def _announce(self) -> None:
        new = max(0, self.hub.head - (self.cursor or 0))
        if new != self._announced_new:
            self._announced_new = new
            await self._json(type="paused", new=new)

    async def _sleep(self, beat_at: float) -> None:
        """Until woken, the next beat, or the moment a slower pace allows the next frame."""
        until = beat_at
        now = time.monotonic()
        if self._next_frame > now:
            until = min(until, self._next_frame)
        with suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, until - now)):
                await self._wake.wait()

    async def _json(self, **message: Any) -> None:
        await self._send({"type": "websocket.send", "text": json.dumps(message, separators=(",", ":"))})


def _now_ms() -> int:
    return int(time.time() * 1000)


def _number(value: Any) -> int:
    """A cursor from outside: a whole number of at least 0; anything else counts as 0."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        return 0
    return min(max(number, 0), 1 << 62)


websocket_urlpatterns: list[Any] = [
    path("ws/run/<int:run_id>", RunSocket(Hubs(layer=get_channel_layer))),  # type: ignore[arg-type]
    re_path(r"", no_such_socket),  # type: ignore[arg-type]
]
