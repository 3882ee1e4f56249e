"""The children of one evaluation, watched together: messages, output, deaths, the end. Standard library only."""

from __future__ import annotations

import os
import select
import socket
import time
from collections.abc import Sequence
from typing import Self

from judge.bench.exchange.reports import Layers
from judge.bench.exchange.wire import Message, WireClosed, WireGarbage, WireTimeout
from judge.bench.processes.children import END_S, Child, wipe
from judge.bench.processes.forkserver import ForkServer
from judge.values import JudgeError, Limits


def wait_readable(fds: list[int], timeout: float) -> set[int]:
    """Descriptors that can be read, or whose other side is gone."""
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    return {fd for fd, _ in poll.poll(max(0.0, timeout) * 1000)}


class ChildGroup:
    """Children that live and die together. Use as a context manager: nothing survives the block."""

    def __init__(
        self,
        limits: Limits,
        *,
        sandbox: bool = True,
        required: frozenset[str] = frozenset(),
        waits: bool = True,
    ) -> None:
        """Without `waits` the end of the block only kills; `close` has to be called before others start."""
        self.waits = waits
        self.kept: set[str] = set()  # names of members that outlive the block
        self.limits = limits
        self.sandbox = sandbox
        self.required = required
        self.members: dict[str, Child] = {}

    def start(self, name: str, server: ForkServer, *, allow_fork: bool = True, allow_memfd: bool = True) -> Child:
        """A new member. Without `allow_memfd` it cannot make files in memory, which count for no limit of it."""
        child = server.spawn(
            limits=self.limits,
            sandbox=self.sandbox,
            allow_fork=allow_fork,
            required=self.required,
            allow_memfd=allow_memfd,
        )
        self.members[name] = child
        return child

    def adopt(self, name: str, child: Child) -> None:
        """Take a child that stayed from an earlier evaluation."""
        child.server.thaw(child)
        child.log.clear()
        child.log_dropped = 0
        self.members[name] = child

    def assign(
        self, name: str, payload: Message, links: Sequence[socket.socket] = (), lock_fd: int | None = None
    ) -> None:
        """Hand the assignment over with its descriptors, which are closed here. Its channel stays open, but only a
        trusted child's messages are ever read."""
        fds = (*(link.fileno() for link in links), *((lock_fd,) if lock_fd is not None else ()))
        try:
            self.members[name].boss.send(payload, fds)
        except WireClosed:
            pass  # it died already; its exit status will say so
        except (WireTimeout, WireGarbage) as error:
            raise JudgeError(f"the {name} child was not given its assignment: {error}") from error
        finally:
            for link in links:
                link.close()
            if lock_fd is not None:
                os.close(lock_fd)

    def step(self, timeout: float, listen: str) -> list[Message]:
        """Wait for anything to happen; messages of the member `listen`. All output is drained meanwhile.

        Raises WireGarbage for what is no message.
        """
        boss = self.members[listen].boss
        servers = {child.server for child in self.members.values()}
        logs = [child.log_fd for child in self.members.values() if child.log_open]
        ready = wait_readable([boss.fileno(), *(server.channel.fileno() for server in servers), *logs], timeout)
        for server in servers:
            server.pump()
        for child in self.members.values():
            child.drain(self.limits.output_bytes)
        if boss.fileno() not in ready:
            return []
        try:
            return boss.pump()
        except WireClosed:
            if self.members[listen].status is None:
                time.sleep(0.002)  # its exit report is on the way; do not spin until then
            return []

    def ended(self, name: str, within_s: float = 0.0) -> Child | None:
        """The member if it has ended, waiting a little for the news."""
        child = self.members.get(name)
        if child is None:
            return None
        deadline = time.monotonic() + within_s
        while child.status is None and time.monotonic() < deadline:
            wait_readable([child.server.channel.fileno()], 0.05)
            child.server.pump()
        return child if child.status is not None else None

    def read_layers(self, name: str) -> dict[str, str]:
        """Sandbox layers the member reported before it had seen any foreign code."""
        child = self.members[name]
        if child.layers is None:
            first = next(iter(child.hear()), None)
            child.layers = first.states if isinstance(first, Layers) else {}
        return child.layers

    def close(self) -> None:
        """Kill every member, wait for their ends, take their last output, wipe their folders. Kept ones stay."""
        deadline = time.monotonic() + END_S
        faults = self.kill()
        for name, child in self._leaving():
            if not child.server.gone and self.ended(name, max(0.0, deadline - time.monotonic())) is None:
                faults.append(f"the {name} child (process {child.pid}) could not be killed")
            child.drain(self.limits.output_bytes)
            child.release()
            wipe(child.folder)
        if faults:
            raise JudgeError("; ".join(dict.fromkeys(faults)))

    def kill(self) -> list[str]:
        """Send everybody home who does not stay, without waiting; take what they have printed. What went wrong."""
        faults: list[str] = []
        for _, child in self._leaving():
            try:
                child.server.kill(child)
            except JudgeError as error:
                faults.append(str(error))  # its zygote is gone, and every child died with it
            child.drain(self.limits.output_bytes)
        return faults

    def _leaving(self) -> list[tuple[str, Child]]:
        return [(name, child) for name, child in self.members.items() if name not in self.kept]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self.waits:
            self.close()
        else:
            self.kill()
