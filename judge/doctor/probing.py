"""Attempts of a child against its sandbox, and what they are aimed at."""

from __future__ import annotations

import dataclasses
import os
import secrets
import shutil
import signal
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from judge.bench.exchange.wire import Message, WireGarbage
from judge.bench.probing.attempts import Targets
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.forkserver import ForkServer
from judge.bench.runner import Bench
from judge.values import JudgeError, Limits

NAMESPACES = ("net", "ipc", "user")
SECRET = "ADAEXPLORE_DOCTOR_SECRET"


@contextmanager
def targets(*, neighbour: int, limits: Limits, cuda: bool) -> Iterator[Targets]:
    """Targets for one probe; `neighbour` is the process id of another child."""
    with ExitStack() as stack:
        folder = Path(tempfile.mkdtemp(prefix="adaexplore-doctor-"))
        stack.callback(shutil.rmtree, folder, ignore_errors=True)
        folder.chmod(0o777)
        file = folder / "readable"
        file.write_text("anybody may read this")
        file.chmod(0o644)
        unix = str(folder / "socket")
        abstract = f"\0adaexplore-doctor-{secrets.token_hex(8)}"
        tcp = stack.enter_context(_listening(socket.AF_INET, ("127.0.0.1", 0)))
        stack.enter_context(_listening(socket.AF_UNIX, unix))
        stack.enter_context(_listening(socket.AF_UNIX, abstract))
        Path(unix).chmod(0o777)
        os.environ[SECRET] = "1"
        stack.callback(os.environ.pop, SECRET, None)
        yield Targets(
            file=str(file),
            folder=str(folder),
            port=int(tcp.getsockname()[1]),
            unix=unix,
            abstract=abstract,
            neighbour=neighbour,
            namespaces={kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES},
            secret=SECRET,
            memory_mb=limits.memory_mb,
            cuda=cuda,
        )


@contextmanager
def _listening(family: int, address: object) -> Iterator[socket.socket]:
    with socket.socket(family, socket.SOCK_STREAM) as server:
        server.bind(address)  # type: ignore[arg-type]
        server.listen(8)
        yield server


LIMITS = Limits(wall_s=120.0, stage_s=60.0, memory_mb=512)
PROBE_S = 120.0
DEATH_S = 5.0


@dataclass(frozen=True)
class Probed:
    """What the children of one device found. Attempts map a name to "through" or the error that stopped it."""

    facts: Message  # the zygote's versions
    layers: dict[str, str]  # what the sandboxed child says of its own layers
    inside: dict[str, str]
    outside: dict[str, str]  # the same attempts without a sandbox
    exchange: Message
    tools: Message
    fork_ms: float  # from the order to a child that waits in its sandbox
    folder_wiped: bool
    outlived_s: float | None  # how long a child lived on after its fork server was killed; None: it still did


def probe(bench: Bench) -> Probed:
    """Probe `bench`'s device. It kills the bench's fork server at the end. Raises JudgeError when nothing starts."""
    server = bench.server("plain")
    facts = dict(server.wait_ready())
    cuda = bench.device.startswith("cuda")
    outside, _, _, _ = _attempt(server, cuda, sandbox=False)
    inside, layers, fork_ms, folder = _attempt(server, cuda, sandbox=True)
    return Probed(
        facts=facts,
        layers=layers,
        inside=inside,
        outside=outside,
        exchange=_exchange(server),
        tools=_tools(server),
        fork_ms=fork_ms,
        folder_wiped=not folder.exists(),
        outlived_s=_outlived(server),
    )


def _attempt(server: ForkServer, cuda: bool, *, sandbox: bool) -> tuple[dict[str, str], dict[str, str], float, Path]:
    """What came of each attempt, the child's layers, milliseconds to a ready child, its folder."""
    with ChildGroup(LIMITS, sandbox=sandbox) as group:
        started = time.monotonic()
        neighbour = _Member(group, "neighbour", server, {"part": "stay", "stay": True})
        neighbour.heard("probe")
        fork_ms = (time.monotonic() - started) * 1000
        with targets(neighbour=neighbour.child.pid, limits=LIMITS, cuda=cuda) as reachable:
            payload = {"part": "attempts", "targets": dataclasses.asdict(reachable)}
            member = _Member(group, "probe", server, payload)
            layers, found = member.heard("sandbox"), member.heard("probe")
    return found, layers, fork_ms, member.child.folder


def _exchange(server: ForkServer) -> Message:
    with ChildGroup(LIMITS) as group:
        giver, taker = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        give = _Member(group, "give", server, {"part": "give"}, giver)
        _Member(group, "take", server, {"part": "take"}, taker)
        return give.heard("probe")


def _tools(server: ForkServer) -> Message:
    with ChildGroup(LIMITS) as group:
        return _Member(group, "tools", server, {"part": "tools"}).heard("probe")


def _outlived(server: ForkServer) -> float | None:
    """Kill the fork server while a child waits, and see how long the child lives on."""
    if server.process is None:
        raise JudgeError("only a fork server of its own can be killed")
    child = server.spawn(limits=LIMITS, sandbox=True, allow_fork=True)
    child.boss.receive(PROBE_S)  # its layers: it has set everything up
    server.pump()
    os.kill(server.process.pid, signal.SIGKILL)
    server.process.wait()
    killed = time.monotonic()
    try:
        while _lives(child.pid):
            if time.monotonic() - killed > DEATH_S:
                os.kill(child.pid, signal.SIGKILL)
                return None
            time.sleep(0.002)
    finally:
        child.release()
    return time.monotonic() - killed


def _lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class _Member:
    """One started child and what it has said."""

    def __init__(
        self, group: ChildGroup, name: str, server: ForkServer, payload: Message, link: socket.socket | None = None
    ):
        self.group, self.name = group, name
        self.child = group.start(name, server)
        self._said: dict[str, Message] = {}
        group.assign(name, {"role": "probe", **payload}, [link] if link else [])

    def heard(self, key: str) -> Message:
        """The value of its message `key`. Raises JudgeError when it ends, or stays silent, without one."""
        deadline = time.monotonic() + PROBE_S
        while key not in self._said and (left := deadline - time.monotonic()) > 0:
            gone = self.group.ended(self.name)
            try:
                messages = self.group.step(0 if gone else min(1.0, left), self.name)
            except WireGarbage as error:
                raise JudgeError(f"the {self.name} probe sent {error}") from error
            for message in messages:
                self._said.update({name: dict(value) for name, value in message.items() if isinstance(value, dict)})
            if gone:
                break
        if key not in self._said:
            raise JudgeError(f"the {self.name} probe said no {key}: {self.child.ending()} {self.child.tail()}")
        return self._said[key]
