"""Who may use a GPU: many at once for checks, one alone for timing. Holds across processes; standard library only.

Record locks of one file: byte 0 is the GPU, byte 1 the queue. Whoever wants the GPU stands in the queue first, so
that a measurement does not starve behind a stream of checks. The kernel frees both when the holder dies.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

GPU, QUEUE = 0, 1
WAITING = "waiting for the GPU"  # what the referee tells the runner meanwhile
LONGEST_WAIT_S = 600.0  # waiting counts against no time limit, up to this in one evaluation


class GpuLock:
    """`fd` is open for reading and writing; None (no GPU) makes every method do nothing. One holder per process.

    `waiting` is entered around every wait, and only when there is one.
    """

    def __init__(self, fd: int | None, waiting: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self.fd = fd
        self._waiting = waiting

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU beside others that do the same."""
        self._take(fcntl.LOCK_SH)
        try:
            yield
        finally:
            self._free(GPU)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside `shared`: wait until nobody else uses the GPU, then keep it for the block; then share again."""
        self._free(GPU)  # first: two holders that both wait for the other to leave would wait for ever
        self._take(fcntl.LOCK_EX)
        try:
            yield
        finally:
            self._lock(fcntl.LOCK_SH, GPU)  # giving up the exclusive part never waits

    def _take(self, kind: int) -> None:
        self._lock(fcntl.LOCK_EX, QUEUE)
        try:
            self._lock(kind, GPU)
        finally:
            self._free(QUEUE)

    def _lock(self, kind: int, byte: int) -> None:
        if self.fd is None:
            return
        try:
            fcntl.lockf(self.fd, kind | fcntl.LOCK_NB, 1, byte, os.SEEK_SET)
        except (BlockingIOError, PermissionError):  # which of the two, POSIX leaves open: somebody else has it
            with self._waiting():
                fcntl.lockf(self.fd, kind, 1, byte, os.SEEK_SET)

    def _free(self, byte: int) -> None:
        if self.fd is not None:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, byte, os.SEEK_SET)
