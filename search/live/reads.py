"""Database reads of the live view: a small pool of threads of its own, so sockets never wait behind page views."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar

from django.db import close_old_connections, connections

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
