"""Keeps a set of child processes alive: start in order, restart what dies, stop all of it cleanly."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_PDEATHSIG = 1
STEADY_S = 5.0  # whoever lives this long has come up: the next death counts as the first


@dataclass(frozen=True)
class Role:
    """One process to keep alive. `ready` is polled after each start; `wait_s` bounds the polling."""

    name: str
    argv: Sequence[str]
    env: dict[str, str] = field(default_factory=dict)
    ready: Callable[[], bool] | None = None
    wait_s: float = 20.0
    stop_s: float = 10.0  # between SIGTERM and SIGKILL


@dataclass
class Child:
    role: Role
    process: subprocess.Popen[bytes]
    started: float
    failures: int = 0
    restart_at: float = 0.0


class CannotStart(Exception):
    """A role did not come up; the message names its log file."""


def _die_with_parent() -> None:
    """In the child, before exec: a supervisor killed by SIGKILL must leave nothing behind (Linux only)."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


class Supervisor:
    """Starts roles in order, restarts the dead with a delay of 1, 2, 4 ... 30 s, stops them in reverse order."""

    def __init__(
        self,
        roles: Sequence[Role],
        logs: Path,
        say: Callable[[str], None],
        on_death: Callable[[Role], None] = lambda _role: None,
    ) -> None:
        """`on_death` is called once for every child that ends unasked, before it is started again."""
        self.roles, self.logs, self.say, self.on_death = list(roles), logs, say, on_death
        self.children: list[Child] = []
        self.stopping = False

    def start(self) -> None:
        """Start every role and wait until those that can tell are ready. Raises CannotStart."""
        self.logs.mkdir(parents=True, exist_ok=True, mode=0o700)
        for role in self.roles:
            child = Child(role, self._spawn(role), time.monotonic())
            self.children.append(child)
            self._await_ready(child)

    def run(self, tick_s: float = 0.5) -> None:
        """Watch until `stop` is called (by a signal handler)."""
        while not self.stopping:
            time.sleep(tick_s)
            for child in self.children:
                self._watch(child)

    def stop(self) -> None:
        """SIGTERM in reverse order of start, SIGKILL for whoever is left after its `stop_s`. Idempotent."""
        self.stopping = True
        first, rest = self.children[:1], self.children[1:]
        for group in (rest, first):  # the broker goes last: workers say goodbye to it
            for child in group:
                _signal_group(child.process, signal.SIGTERM)
            for child in group:
                self._reap(child)

    def _reap(self, child: Child) -> None:
        try:
            child.process.wait(child.role.stop_s)
        except subprocess.TimeoutExpired:
            _signal_group(child.process, signal.SIGKILL)
            child.process.wait()

    def _spawn(self, role: Role) -> subprocess.Popen[bytes]:
        log = (self.logs / f"{role.name}.log").open("ab", buffering=0)
        try:
            return subprocess.Popen(
                role.argv,
                env={**os.environ, **role.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C reaches the supervisor only; it stops the others in order
                preexec_fn=_die_with_parent,
            )
        finally:
            log.close()

    def _await_ready(self, child: Child) -> None:
        deadline = time.monotonic() + child.role.wait_s
        while child.role.ready is not None and not child.role.ready():
            if child.process.poll() is not None or time.monotonic() > deadline:
                raise CannotStart(
                    f"{child.role.name} did not come up (exit status {child.process.poll()}). "
                    f"Its last words are in {self.logs / child.role.name}.log"
                )
            time.sleep(0.05)

    def _watch(self, child: Child) -> None:
        if child.process.poll() is None:
            if child.failures and time.monotonic() - child.started > STEADY_S:
                child.failures = 0
            return
        now = time.monotonic()
        if not child.restart_at:
            child.failures += 1
            delay = min(30.0, 2.0 ** (child.failures - 1))
            child.restart_at = now + delay
            self.on_death(child.role)
            self.say(
                f"{child.role.name} ended with status {child.process.returncode}; "
                f"starting it again in {delay:.0f} s (log: {self.logs / child.role.name}.log)"
            )
        elif now >= child.restart_at and not self.stopping:
            child.restart_at, child.started = 0.0, now
            child.process = self._spawn(child.role)


def _signal_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    if process.poll() is None:
        try:
            os.killpg(process.pid, number)
        except ProcessLookupError:
            pass  # it ended between the check and the signal
