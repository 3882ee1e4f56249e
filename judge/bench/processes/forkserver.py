"""The runner's side of a zygote: start it with a clean environment, ask for children, hear how they ended. Standard
library only."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import IO

from judge.bench.device.nvml import entry_of
from judge.bench.exchange.wire import Channel, Message, WireClosed, WireGarbage, WireTimeout
from judge.bench.processes.children import END_S, Child, folder_mode, retire
from judge.bench.processes.cores import CorePlan
from judge.bench.processes.killed import Cause
from judge.bench.processes.stopping import LOOK_S, look
from judge.values import JudgeError, Limits

PROJECT = Path(__file__).resolve().parents[3]
START_S = 180.0
PLACE_S = 5.0
# Nothing else of the caller's environment reaches a child: no keys, no addresses, no passwords.
PASSED_ON = (
    "PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH", "CC", "CXX", "TZ",
    "TRITON_LIBCUDA_PATH", "TRITON_PTXAS_PATH",
)  # fmt: skip
FIXED = {
    "USER": "judge",  # torch asks who runs it; in a user namespace the answer is in no password file
    "LOGNAME": "judge",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    "TORCHINDUCTOR_COMPILE_THREADS": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONHASHSEED": "0",  # a candidate that goes by the order of a set gets the same modelled time every time
    "PYTHONUNBUFFERED": "1",
    "PYTHONNOUSERSITE": "1",
    "KINETO_LOG_LEVEL": "99",  # torch's profiler writes to standard error, which is the candidate's log
}


def clean_environment(device: str, *, interpret: bool) -> dict[str, str]:
    """Environment of a zygote for `device`: "cpu", or "cuda:N" with N as `gpus_here` counts."""
    env = {name: os.environ[name] for name in PASSED_ON if name in os.environ} | FIXED
    env["CUDA_DEVICE_ORDER"] = "PCI_BUS_ID"
    env["CUDA_DEVICE_MAX_CONNECTIONS"] = "4"  # hardware queues of a context, 8 by default: fewer are made faster
    env["CUDA_VISIBLE_DEVICES"] = entry_of(int(device.partition(":")[2] or 0)) if device.startswith("cuda") else ""
    if interpret:
        env["TRITON_INTERPRET"] = "1"
    return env


class ForkServer:
    """One zygote process. Raises JudgeError when it cannot start or is gone."""

    def __init__(
        self,
        *,
        device: str,
        target: str,
        kind: str,
        root: Path,
        parent: ForkServer | None = None,
        gpu_lock: Path | None = None,
        cores: CorePlan | None = None,
    ) -> None:
        """`kind`: "plain", "interpreter" (TRITON_INTERPRET=1) or "recorder" (compiles, runs nothing).

        With a `parent` it is forked from that zygote and shares what that has loaded. Children say in `gpu_lock` that
        they make their CUDA context. It and its children run on the `others` of `cores`.
        """
        self.root = root
        self.children: dict[int, Child] = {}
        self._next = 0
        self._spares: list[tuple[Message, Child]] = []
        self._gpu_lock = gpu_lock
        self._cores = sorted(cores.others) if cores is not None else []
        self._placed: dict[int, str] = {}  # by child: why it could not be moved; "" where it was
        self._label = kind
        self.facts: Message | None = None
        self.gone = False
        self._stderr: IO[bytes] = parent._stderr if parent else (root / f"zygote-{kind}.log").open("wb+")
        self.channel, theirs = Channel.pair()
        self.process: subprocess.Popen[bytes] | None = None
        if parent is None:
            self._launch(theirs, device, target, kind)
        else:
            parent.branch(kind, theirs)
        theirs.close()

    def _launch(self, theirs: socket.socket, device: str, target: str, kind: str) -> None:
        torch_device = "cuda:0" if device.startswith("cuda") else "cpu"
        options = {"socket": theirs.fileno(), "parent": os.getpid(), "root": str(self.root)}
        options |= {"device": torch_device, "target": target, "kind": kind}
        options |= {"gpu_lock": str(self._gpu_lock) if self._gpu_lock else None, "cores": self._cores}
        command = [sys.executable, "-m", "judge.bench.processes.zygote", json.dumps(options)]
        self.process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=clean_environment(device, interpret=kind == "interpreter"),
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
            stdout=self._stderr,
            stderr=self._stderr,
            start_new_session=True,  # Ctrl-C reaches the runner only; it closes us in order
        )

    def branch(self, kind: str, theirs: socket.socket) -> None:
        """Ask this zygote to fork another one that serves `theirs`."""
        self.wait_ready()
        self._send({"op": "branch", "kind": kind}, (theirs.fileno(),))

    def _send(self, message: Message, fds: tuple[int, ...] = ()) -> None:
        try:
            self.channel.send(message, fds)
        except (WireClosed, WireTimeout) as error:
            raise self._lost() from error

    def _lost(self) -> JudgeError:
        self.gone = True
        return JudgeError(f"the {self._label} fork server is gone: {self._last_words()}")

    def wait_ready(self) -> Message:
        """Versions and thread count of the zygote, once it has preloaded everything."""
        if self.facts is None:
            try:
                self.facts = dict(self._first(time.monotonic() + START_S)["ready"])
            except (WireClosed, WireGarbage, WireTimeout) as error:
                self.gone = True
                raise JudgeError(f"the {self._label} fork server did not start: {self._last_words()}") from error
        return self.facts

    def _first(self, deadline: float) -> Message:
        """What it says once it is there. Raises Stopped when nobody wants that any more."""
        while True:
            look()
            try:
                return self.channel.receive(min(LOOK_S, max(0.0, deadline - time.monotonic())))
            except WireTimeout:
                if time.monotonic() >= deadline:
                    raise

    def spawn(
        self,
        *,
        limits: Limits,
        sandbox: bool,
        allow_fork: bool,
        required: Iterable[str] = (),
        allow_memfd: bool = True,
    ) -> Child:
        """A child that enters its sandbox and waits for its assignment; without the `required` layers it ends.

        A spare of the same kind, whose CUDA context exists already, if there is one; else it is forked now.
        """
        order = self._order(limits, sandbox=sandbox, allow_fork=allow_fork, required=required, allow_memfd=allow_memfd)
        if self._spares:
            self.pump()
        for number, (kind, child) in enumerate(self._spares):
            if kind == order:
                del self._spares[number]
                if child.status is None:
                    return child
                retire(child)
                break
        return self._fork(order)

    def stock(
        self, count: int, *, limits: Limits, sandbox: bool, allow_fork: bool, required: Iterable[str] = ()
    ) -> None:
        """Keep `count` spares of this kind and no other; they get ready while nobody waits for them."""
        self.pump()
        order = self._order(limits, sandbox=sandbox, allow_fork=allow_fork, required=required)
        kept = [(kind, child) for kind, child in self._spares if kind == order and child.status is None][:count]
        for kind, child in self._spares:
            if (kind, child) not in kept:
                self.kill(child)
                retire(child)
        self._spares = kept
        while len(self._spares) < count:
            self._spares.append((order, self._fork(order)))

    def waiting(self) -> list[Child]:
        """The spares."""
        return [child for _, child in self._spares]

    def empty(self) -> None:
        """End the spares. Returns when they have ended, or after END_S; one with a CUDA context takes a moment."""
        ending = [child for _, child in self._spares]
        self._spares = []
        deadline = time.monotonic() + END_S
        try:
            for child in ending:
                self.kill(child)
            while any(child.status is None for child in ending) and time.monotonic() < deadline:
                self.pump()
                time.sleep(0.005)
        except JudgeError:
            pass  # we are gone, and they died with us
        for child in ending:
            retire(child)

    def _order(
        self, limits: Limits, *, sandbox: bool, allow_fork: bool, required: Iterable[str], allow_memfd: bool = True
    ) -> Message:
        return {
            "op": "spawn",
            "memory_mb": limits.memory_mb,
            "cpu_s": int(limits.wall_s * 2) + 10,
            "sandbox": sandbox,
            "required": sorted(required),
            "allow_fork": allow_fork,
            "allow_memfd": allow_memfd,
            "gpu_lock": str(self._gpu_lock) if self._gpu_lock else None,
        }

    def _fork(self, order: Message) -> Child:
        self.wait_ready()
        self._next += 1
        folder = self.root / f"{self._label}-{self._next}"
        folder.mkdir()
        folder.chmod(folder_mode())
        boss, boss_theirs = Channel.pair()
        log_read, log_write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(log_read, False)
        child = Child(self._next, self, folder, boss, log_read)
        try:
            self._send({**order, "id": child.number, "folder": str(folder)}, (boss_theirs.fileno(), log_write))
        finally:
            boss_theirs.close()
            os.close(log_write)
        self.children[child.number] = child
        return child

    def kill(self, child: Child) -> None:
        if child.status is None and not child.killed:
            child.killed = True
            self._send({"op": "kill", "id": child.number})

    def freeze(self, child: Child, *, after_s: float) -> None:
        """Have its processes stopped `after_s` from now, once they hold nothing of the GPU's lock."""
        self._send({"op": "freeze", "id": child.number, "after_s": after_s})

    def thaw(self, child: Child) -> None:
        self._send({"op": "thaw", "id": child.number})

    def place(self, child: Child, cores: Iterable[int] = (), *, nice: int = 0) -> str:
        """Move all of a child to these processors, or leave it there without any, and make it nicer. Returns why that
        failed, "" where it worked. Raises JudgeError."""
        self._send({"op": "place", "id": child.number, "cores": sorted(cores), "nice": nice})
        deadline = time.monotonic() + PLACE_S
        while child.number not in self._placed and time.monotonic() < deadline:
            select.select([self.channel.fileno()], [], [], 0.05)
            self.pump()
        return self._placed.pop(child.number, "the fork server does not answer")

    def pump(self) -> None:
        """Note what the zygote reported."""
        try:
            messages = self.channel.pump()
        except (WireClosed, WireGarbage) as error:
            raise self._lost() from error
        for message in messages:
            if "spawned" in message:
                self.children[message["spawned"]].pid = message["pid"]
            elif "exited" in message:
                child = self.children.pop(message["exited"])
                child.status, child.peak_kb = message["status"], message["peak_kb"]
                child.cause = Cause(message["cause"])
            elif "placed" in message:
                self._placed[message["placed"]] = message["why"]
            elif "failed" in message:
                raise JudgeError(f"no child could be forked: {message['why']}")

    @property
    def alive(self) -> bool:
        return not self.gone and (self.process is None or self.process.poll() is None)

    def close(self) -> None:
        """End the zygote; it kills its children first."""
        self.gone = True
        self.channel.close()
        if self.process is not None:
            self.process.terminate()  # while it still preloads, it does not look at the channel
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        for child in self.children.values():
            retire(child)
        self.children.clear()
        if self.process is not None:
            self._stderr.close()

    def _last_words(self) -> str:
        self._stderr.flush()
        text = Path(self._stderr.name).read_text(errors="replace").strip()
        return text[-600:] or "it said nothing"
