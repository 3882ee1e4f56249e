"""One limit for a whole exchange: the timeouts of a client begin anew with every byte that trickles in."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Any


class Deadline:
    """Ends the connection that it watches after `seconds`, whatever is being read or written there."""

    def __init__(self, seconds: float) -> None:
        self.end = time.monotonic() + seconds
        self._socket: socket.socket | None = None
        self._timer: threading.Timer | None = None

    @property
    def left_s(self) -> float:
        """Seconds until the end; negative after it."""
        return self.end - time.monotonic()

    def watch(self, name: str, facts: Mapping[str, Any]) -> None:
        """Hear what the client does (its extension `trace`): there is a connection to watch once it has one."""
        if name != "connection.connect_tcp.complete":
            return
        # A copy of the handle: TLS takes the first one over, and shutting down any of them ends the connection.
        self._socket = facts["return_value"].get_extra_info("socket").dup()
        self._timer = threading.Timer(max(self.left_s, 0.0), self._shut)
        self._timer.daemon = True
        self._timer.start()

    def _shut(self) -> None:
        with suppress(OSError):  # it has ended by itself
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Deadline:
        return self

    def __exit__(self, *_: object) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer.join()
        if self._socket is not None:
            self._socket.close()
