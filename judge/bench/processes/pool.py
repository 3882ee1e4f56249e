"""Work done side by side in forked processes; one that hangs is killed. Standard library only."""

from __future__ import annotations

import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from judge.bench.processes.children import signal_name
from judge.bench.sandboxing.sandbox import die_with_parent

RESULT_BYTES = 1 << 20
MOST_WORKERS = 16
LIFETIME_S = 30.0

Result = dict[str, Any]
Work = Callable[[], Result]


def default_workers() -> int:
    """Processes to compile in: every core but two, which belong to those that measure; at least one."""
    cores = len(os.sched_getaffinity(0))
    return max(1, min(MOST_WORKERS, cores - 2 if cores > 3 else cores))


@dataclass(eq=False)
class Ticket:
    """One piece of work. `result` is None until it is done; `dropped` when nobody waits for it any more."""

    work: Work
    urgent: bool
    effort: float = 0.0  # of those that are equally urgent, the least comes first
    glance: Work | None = None  # a first look at the same, for when there is no time for the work
    result: Result | None = None
    dropped: bool = False
    pid: int = 0
    reader: int = -1
    received: bytearray = field(default_factory=bytearray)

    @property
    def settled(self) -> bool:
        return self.dropped or self.result is not None


class Pool:
    """Forks a process for each ticket, at most `workers` at once: urgent ones first, then those of less effort.

    The work returns plain JSON; a process that dies without a result gives {"died": words}. Forks happen inside
    `submit`, `start` and the waiting calls.
    """

    def __init__(
        self, workers: int, now: Callable[[], float] = time.monotonic, *, lifetime_s: float = LIFETIME_S
    ) -> None:
        self.workers = workers
        self.lifetime_s = lifetime_s
        self.now = now
        self._queue: list[Ticket] = []
        self._running: dict[int, Ticket] = {}  # by the descriptor its result comes through

    def submit(self, work: Work, *, urgent: bool = True) -> Ticket:
        ticket = Ticket(work, urgent)
        self._queue.append(ticket)
        self._step(0.0)
        return ticket

    def offer(self, work: Work, effort: float, glance: Work | None = None) -> Ticket:
        """Queue what nobody needs yet; it begins with the next `start` or `wait`, whatever is less effort before it."""
        ticket = Ticket(work, urgent=False, effort=effort, glance=glance)
        self._queue.append(ticket)
        return ticket

    def start(self) -> None:
        """Begin what waits."""
        self._step(0.0)

    def wait(
        self, tickets: Iterable[Ticket], deadline: float, enough: Callable[[Ticket], bool] = lambda ticket: False
    ) -> bool:
        """Until every ticket is settled or one is `enough`; False when the pool's clock reaches the deadline first."""
        wanted = list(tickets)
        for ticket in wanted:
            ticket.urgent = True
        while not all(ticket.settled for ticket in wanted) and not any(map(enough, wanted)):
            left = deadline - self.now()
            if left <= 0:
                return False
            self._step(min(left, 1.0))
        return True

    def drop(self, tickets: Iterable[Ticket]) -> int:
        """Give up on tickets that are not settled; returns how many."""
        given_up = [ticket for ticket in tickets if not ticket.settled]
        for ticket in given_up:
            ticket.dropped = True
            if ticket in self._queue:
                self._queue.remove(ticket)
            if ticket.pid:
                self._abandon(ticket)
        return len(given_up)

    def _abandon(self, ticket: Ticket) -> None:
        """Kill it; where signals are forbidden it ends with its time, or with us."""
        try:
            os.kill(ticket.pid, signal.SIGKILL)
        except PermissionError:
            del self._running[ticket.reader]
            os.close(ticket.reader)
            ticket.pid = 0
        else:
            self._reap(ticket)

    def close(self) -> None:
        """Kill whatever still runs."""
        self.drop([*self._queue, *self._running.values()])

    def _step(self, timeout: float) -> None:
        self._fill()
        if not self._running:
            return
        poll = select.poll()
        for fd in self._running:
            poll.register(fd, select.POLLIN)
        for fd, _ in poll.poll(timeout * 1000):
            self._read(self._running[fd])
        self._fill()

    def _fill(self) -> None:
        while self._queue and len(self._running) < self.workers:
            ticket = min(self._queue, key=lambda ticket: (not ticket.urgent, ticket.effort))
            self._queue.remove(ticket)
            self._start(ticket)

    def _start(self, ticket: Ticket) -> None:
        reader, writer = os.pipe2(os.O_CLOEXEC)
        ticket.pid = os.fork()
        if ticket.pid == 0:
            _work(ticket.work, writer, self.lifetime_s)
        os.close(writer)
        ticket.reader = reader
        self._running[reader] = ticket

    def _read(self, ticket: Ticket) -> None:
        part = os.read(ticket.reader, 1 << 16)
        if part and len(ticket.received) <= RESULT_BYTES:
            ticket.received += part
            return
        status = self._reap(ticket)
        try:
            found = json.loads(ticket.received)
            ticket.result = found if isinstance(found, dict) else {"died": "no result"}
        except (ValueError, RecursionError):
            ticket.result = {"died": _ending(status)}

    def _reap(self, ticket: Ticket) -> int:
        del self._running[ticket.reader]
        os.close(ticket.reader)
        _, status = os.waitpid(ticket.pid, 0)
        ticket.pid = 0
        return status


def _ending(status: int) -> str:
    if os.WIFSIGNALED(status):
        return signal_name(os.WTERMSIG(status))
    return f"exit status {os.WEXITSTATUS(status)}"


def _work(work: Work, writer: int, lifetime_s: float) -> NoReturn:
    """Life of one forked process."""
    status = 1
    try:
        die_with_parent()
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, lifetime_s)  # in a sandbox nobody else may end it
        data = memoryview(json.dumps(work()).encode())
        while data:
            data = data[os.write(writer, data) :]
        status = 0
    except BaseException as error:  # noqa: BLE001 - a forked process must not unwind into its parent's stack
        os.write(2, f"compile worker: {type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(status)
