"""Who may use a GPU: many at once for checks, one alone for timing. Holds across processes; standard library only.

Record locks of one file: byte 0 is the GPU, byte 1 the queue. Whoever wants the GPU stands in the queue first, so
that a measurement does not starve behind a stream of checks. The kernel frees both when the holder dies.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from judge.values import JudgeError

GPU, QUEUE = 0, 1
LONGEST_WAIT_S = 600.0  # waiting counts against no time limit, up to this in one evaluation


@contextmanager
def beside_others(path: str | None) -> Iterator[None]:
    """Hold the GPU as one of many without standing in the queue, which a relative may be heading: this is short."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW) if path else None
    try:
        if fd is not None:
            fcntl.lockf(fd, fcntl.LOCK_SH, 1, GPU, os.SEEK_SET)
        yield
    finally:
        if fd is not None:
            os.close(fd)


class GpuLock:
    """`fd` is open for reading and writing; None (no GPU) makes every method do nothing. One holder per process.

    `waiting` is entered around every wait, and only when there is one. `kept` hears the seconds of every time alone.
    """

    def __init__(
        self,
        fd: int | None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        kept: Callable[[float], None] = lambda seconds: None,
    ) -> None:
        self.fd = fd
        self._waiting = waiting
        self._kept = kept

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU beside others that do the same."""
        self._take(fcntl.LOCK_SH)
        try:
            yield
        finally:
            self._free(GPU)

    @contextmanager
    def shared_at_once(self) -> Iterator[bool]:
        """Use the GPU beside others, if nobody has it alone or waits for that; False: it was not to be had."""
        held = self._try(fcntl.LOCK_EX, QUEUE)
        free = held and self._try(fcntl.LOCK_SH, GPU)
        if held:
            self._free(QUEUE)
        try:
            yield free
        finally:
            if free:
                self._free(GPU)

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Inside `shared`: wait until nobody else uses the GPU, then keep it for the block; then share again."""
        self._free(GPU)  # first: two holders that both wait for the other to leave would wait for ever
        self._take(fcntl.LOCK_EX)
        started = time.monotonic()
        try:
            yield
        finally:
            self._kept(time.monotonic() - started)
            self._lock(fcntl.LOCK_SH, GPU)  # giving up the exclusive part never waits

    def _take(self, kind: int) -> None:
        self._lock(fcntl.LOCK_EX, QUEUE)
        try:
            self._lock(kind, GPU)
        finally:
            self._free(QUEUE)

    def _try(self, kind: int, byte: int) -> bool:
        if self.fd is None:
            return True
        try:
            fcntl.lockf(self.fd, kind | fcntl.LOCK_NB, 1, byte, os.SEEK_SET)
        except (BlockingIOError, PermissionError):  # which of the two, POSIX leaves open
            return False
        return True

    def _lock(self, kind: int, byte: int) -> None:
        if self._try(kind, byte):
            return
        assert self.fd is not None
        with self._waiting():
            fcntl.lockf(self.fd, kind, 1, byte, os.SEEK_SET)

    def _free(self, byte: int) -> None:
        if self.fd is not None:
            fcntl.lockf(self.fd, fcntl.LOCK_UN, 1, byte, os.SEEK_SET)


def open_lock(path: Path) -> int:
    """The lock file, made on first use for every user of this machine. Raises JudgeError.

    Never through a link, and created only when it is missing: in a folder with the sticky bit the kernel may refuse
    O_CREAT for somebody else's file.
    """
    flags = os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        try:
            fd = os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o666)
        except FileExistsError:
            return os.open(path, flags)
        os.fchmod(fd, 0o666)  # whatever the umask
    except OSError as error:
        raise JudgeError(f"the GPU's lock file {path} cannot be opened for writing: {error.strerror}") from error
    return fd
