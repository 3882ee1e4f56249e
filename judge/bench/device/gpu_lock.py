"""Who may use a GPU: many at once for checks, one alone for timing. Holds across processes; standard library only.

Record locks of one file: byte 0 is the GPU, byte 1 the queue. Whoever wants the GPU stands in the queue first, so
that a measurement does not starve behind a stream of checks. Who shares it lets those pass who head the queue, between
two pieces of its work.

CUDA contexts are made beside all of them, except beside a measurement that would read it: byte 2 is shared by processes
that make theirs, byte 3 is held by a measurement that has none begin. Only who has the GPU alone takes byte 3, and who
makes a context waits for no other byte, so nobody waits in a circle. Byte 4 is held by who heads the queue
and will take byte 3: nobody waits for it for longer than LONGEST_PUT_OFF_S. The kernel frees all bytes when the
holder dies.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from judge.values import JudgeError

GPU, QUEUE, MAKING, NO_CONTEXTS, SOON = 0, 1, 2, 3, 4
LONGEST_WAIT_S = 600.0  # waiting counts against no time limit, up to this in one evaluation
LONGEST_PUT_OFF_S = 3.0  # that a context waits for a measurement which has not begun, and such a one for contexts
POLL_S = 0.005


@contextmanager
def making_context(path: str | None) -> Iterator[None]:
    """Say in this lock file that this process makes its CUDA context; waits for a measurement that has none made."""
    fd = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW) if path else None
    try:
        with GpuLock(fd).making():
            yield
    finally:
        if fd is not None:
            os.close(fd)


@dataclass
class GpuUse:
    """Seconds of one process: how long it waited for the GPU, and how long it held it, in each way; `quiet_s` of the
    time alone passed until the GPU was quiet, `waited_contexts_s` until others had made their contexts."""

    waited_shared_s: float = 0.0
    waited_alone_s: float = 0.0
    shared_s: float = 0.0
    alone_s: float = 0.0
    quiet_s: float = 0.0
    waited_contexts_s: float = 0.0

    def to_json(self) -> dict[str, float]:
        """By the names that an evaluation's environment has for them."""
        return {f"gpu_{name}": round(seconds, 4) for name, seconds in vars(self).items()}


class GpuLock:
    """`fd` is open for reading and writing; None (no GPU) makes every method do nothing. One holder per process.

    `waiting` is entered around every wait, and only when there is one. `settled` waits until the GPU has done all that
    this process gave it. `asked` counts questions that other processes answer on the GPU right now: while there are
    any, what is shared is not let go of.
    """

    def __init__(
        self,
        fd: int | None,
        waiting: Callable[[], AbstractContextManager[None]] = nullcontext,
        settled: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fd = fd
        self.use = GpuUse()
        self.asked = 0
        self._waiting = waiting
        self._settled = settled
        self._clock = clock
        self._held: int | None = None  # LOCK_SH, LOCK_EX
        self._since = 0.0
        self._keeps_contexts_off = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Use the GPU beside others that do the same."""
        self._take(fcntl.LOCK_SH)
        try:
            yield
        finally:
            self._drop()

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
    def left(self) -> Iterator[None]:
        """Inside `shared`: others may have the GPU alone during the block, in which nobody of ours uses it."""
        if self._held != fcntl.LOCK_SH or self.asked:
            yield
            return
        self._settled()
        self._drop()
        try:
            yield
        finally:
            self._take(fcntl.LOCK_SH)

    def let_pass(self) -> None:
        """Inside `shared`, between two pieces of work: whoever waits for the GPU has it first."""
        if self._held == fcntl.LOCK_SH and not self.asked and self._wanted():
            self._settled()
            self._drop()
            self._take(fcntl.LOCK_SH)

    @contextmanager
    def alone(self, *, puts_off: bool = False) -> Iterator[None]:
        """Inside `shared`: wait until nobody else uses the GPU, then keep it for the block; then share again.

        With `puts_off` others put their contexts off from when this heads the queue, and those in the making are waited
        for while somebody else still has the GPU. What makes sure is `without_contexts`.
        """
        self._drop()  # first: two holders that both wait for the other to leave would wait for ever
        self._take(fcntl.LOCK_EX, puts_off=puts_off)
        try:
            yield
        finally:
            self._note()
            if puts_off:
                self._free(SOON)
            self._lock(fcntl.LOCK_SH, GPU)  # giving up the exclusive part never waits
            self._held = None if self.fd is None else fcntl.LOCK_SH

    @contextmanager
    def without_contexts(self) -> Iterator[None]:
        """Inside `alone`: wait until no process makes its CUDA context, and have none begin to during the block."""
        started = self._clock()
        self._lock(fcntl.LOCK_EX, NO_CONTEXTS)
        try:
            self._lock(fcntl.LOCK_EX, MAKING)
            self.use.waited_contexts_s += self._clock() - started
            self._keeps_contexts_off = True
            yield
        finally:
            self._keeps_contexts_off = False
            self._free(MAKING)
            self._free(NO_CONTEXTS)

    @contextmanager
    def making(self) -> Iterator[None]:
        """This process makes its CUDA context in the block. Whoever waits for none to be made goes first."""
        self._ask_until(lambda: self._try(fcntl.LOCK_SH, SOON))
        self._free(SOON)
        self._lock(fcntl.LOCK_SH, NO_CONTEXTS)
        try:
            self._lock(fcntl.LOCK_SH, MAKING)
        finally:
            self._free(NO_CONTEXTS)
        try:
            yield
        finally:
            self._free(MAKING)

    def contexts_are_made(self) -> bool:
        """Whether another process makes its CUDA context right now."""
        if self._keeps_contexts_off:
            return False
        if not self._try(fcntl.LOCK_EX, MAKING):
            return True
        self._free(MAKING)
        return False

    def working_s(self) -> float:
        """A clock that stands still while this waits to share the GPU."""
        return self._clock() - self.use.waited_shared_s

    def _wanted(self) -> bool:
        """Whether somebody heads the queue: while we share the GPU, that is one who wants it alone."""
        if not self._try(fcntl.LOCK_EX, QUEUE):
            return True
        self._free(QUEUE)
        return False

    def _put_off(self) -> None:
        """Have no context begin, and wait until those in the making are done: LONGEST_PUT_OFF_S at most."""
        self._ask_until(lambda: self._try(fcntl.LOCK_EX, SOON) and not self.contexts_are_made())

    def _ask_until(self, done: Callable[[], bool]) -> None:
        """Ask again and again until it is so, or for LONGEST_PUT_OFF_S."""
        started = self._clock()
        while not done() and self._clock() - started < LONGEST_PUT_OFF_S:
            time.sleep(POLL_S)

    def _take(self, kind: int, *, puts_off: bool = False) -> None:
        if self.fd is None:
            return
        started = self._clock()
        self._lock(fcntl.LOCK_EX, QUEUE)
        try:
            if puts_off:
                self._put_off()
            self._lock(kind, GPU)
        finally:
            self._free(QUEUE)
        self._held, self._since = kind, self._clock()
        if kind == fcntl.LOCK_EX:
            self.use.waited_alone_s += self._since - started
        else:
            self.use.waited_shared_s += self._since - started

    def _drop(self) -> None:
        self._note()
        self._free(GPU)
        self._held = None

    def _note(self) -> None:
        """Add what it was held for until now."""
        if self._held is None:
            return
        now = self._clock()
        if self._held == fcntl.LOCK_EX:
            self.use.alone_s += now - self._since
        else:
            self.use.shared_s += now - self._since
        self._since = now

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
