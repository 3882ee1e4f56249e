"""Bounded JSON messages with file descriptors over a socketpair. Never pickle. Standard library only."""

from __future__ import annotations

import array
import json
import os
import socket
import struct
import time
from typing import Any, Self

MAX_MESSAGE = 8 << 20  # a source of 1 MiB has up to six bytes of JSON for each of its own
MAX_FDS = 64  # descriptors kept until somebody takes them
_HEADER = struct.Struct("!I")

Message = dict[str, Any]


class WireClosed(Exception):
    """The other side is gone."""


class WireTimeout(Exception):
    """Nothing complete arrived in time."""


class WireGarbage(Exception):
    """The other side sent something that is no bounded JSON object."""


class Channel:
    """One end of a socketpair. Not thread-safe."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self._fds: list[int] = []
        self._buffer = bytearray()
        self._garbage: WireGarbage | None = None  # came after messages that were whole
        self.stamp: Message = {}  # fields of everything sent

    @classmethod
    def pair(cls) -> tuple[Self, socket.socket]:
        """A channel for this process and the bare socket to give away."""
        mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        return cls(mine), theirs

    def fileno(self) -> int:
        return self.sock.fileno()

    def send(self, message: Message, fds: tuple[int, ...] = (), timeout: float = 30.0) -> None:
        """Send one message. Raises WireClosed, WireTimeout, or WireGarbage when it is too big."""
        body = json.dumps({**message, **self.stamp}, allow_nan=True).encode()
        if len(body) > MAX_MESSAGE:
            raise WireGarbage(f"message of {len(body)} bytes")
        data = memoryview(_HEADER.pack(len(body)) + body)
        self.sock.settimeout(timeout)
        try:
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
            sent = self.sock.sendmsg([data], rights)
            if sent < len(data):  # sending nothing to a peer that has read it all and left would fail
                self.sock.sendall(data[sent:])
        except TimeoutError as error:
            raise WireTimeout("send") from error
        except OSError as error:
            raise WireClosed(str(error)) from error

    def receive(self, timeout: float | None) -> Message:
        """The next message; its descriptors are kept for `take_fds`. `timeout` in seconds, None waits for ever."""
        end = None if timeout is None else time.monotonic() + timeout
        while True:
            message = self._parse()
            if message is not None:
                return message
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise WireTimeout("receive")
            self.sock.settimeout(left)
            self._read()

    def pump(self) -> list[Message]:
        """Every message that is complete by now, without waiting. Raises WireClosed when nothing more can come, and
        WireGarbage when what comes next is none."""
        if self._garbage is not None:
            raise self._garbage
        self.sock.settimeout(0)
        closed: WireClosed | None = None
        try:
            while True:
                self._read()
        except WireTimeout:
            pass
        except WireClosed as error:
            closed = error
        messages: list[Message] = []
        try:
            messages += iter(self._parse, None)
        except WireGarbage as error:
            self._garbage = error
            if not messages:
                raise
        if closed is not None and not messages:
            raise closed
        return messages

    def _parse(self) -> Message | None:
        if len(self._buffer) < _HEADER.size:
            return None
        (size,) = _HEADER.unpack_from(self._buffer)
        if size > MAX_MESSAGE:
            raise WireGarbage(f"message of {size} bytes announced")
        if len(self._buffer) < _HEADER.size + size:
            return None
        body = bytes(self._buffer[_HEADER.size : _HEADER.size + size])
        del self._buffer[: _HEADER.size + size]
        try:
            message = json.loads(body)
        except (ValueError, RecursionError, MemoryError) as error:
            raise WireGarbage("not JSON") from error
        if not isinstance(message, dict):
            raise WireGarbage("not a JSON object")
        return message

    def take_fds(self, count: int | None = None) -> list[int]:
        """The first `count` descriptors (None: all) that came with the messages read so far; the caller owns them.

        Several messages may have been read at once, so who takes one message's descriptors must know their number.
        """
        count = len(self._fds) if count is None else count
        fds, self._fds = self._fds[:count], self._fds[count:]
        return fds

    def _read(self) -> None:
        try:
            part, ancillary, _, _ = self.sock.recvmsg(1 << 16, socket.CMSG_SPACE(MAX_FDS * 4))
        except (TimeoutError, BlockingIOError) as error:
            raise WireTimeout("receive") from error
        except OSError as error:
            raise WireClosed(str(error)) from error
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                self._keep(data)
        if not part:
            raise WireClosed("end of stream")
        if len(self._buffer) + len(part) > 2 * MAX_MESSAGE:
            raise WireGarbage("too much unread data")
        self._buffer += part

    def _keep(self, data: bytes) -> None:
        fds = array.array("i")
        fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
        for fd in fds:
            if len(self._fds) < MAX_FDS:
                os.set_inheritable(fd, False)
                self._fds.append(fd)
            else:
                os.close(fd)

    def close(self) -> None:
        for fd in self.take_fds():
            os.close(fd)
        self.sock.close()
