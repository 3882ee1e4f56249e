"""The fork server: torch and Triton preloaded once, then one-shot children forked in milliseconds.

Started by the runner with a clean environment as `python -m judge.bench.processes.zygote`. It stays at one thread (a
user namespace needs that), never touches CUDA (a fork could not use it), and dies with the runner's process.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import select
import signal
import socket
import sys
import time
import traceback
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple, NoReturn

from judge.bench.device.lock_table import LockTable, sharing
from judge.bench.exchange.wire import Channel, Message, WireClosed, WireGarbage, WireTimeout
from judge.bench.processes import child
from judge.bench.processes.children import wipe
from judge.bench.processes.cores import NICE, move
from judge.bench.processes.killed import Kills
from judge.bench.sandboxing import sandbox

PR_SET_CHILD_SUBREAPER = 36
FREEZE_AGAIN_S, FREEZE_TRIES = 0.05, 40


class Freeze(NamedTuple):
    """When a child is to be stopped, by the clock of this process, and how often it was tried."""

    at: float
    tries: int = 0


class Zygote:
    """The server's state: the runner's channel and the live children by id."""

    def __init__(self, runner: Channel, options: SimpleNamespace, context: dict[str, Any]) -> None:
        self.runner = runner
        self.options = options
        self.context = context
        self.pids: dict[int, int] = {}  # child id -> pid
        self.branches: list[int] = []  # pids of other zygotes forked from this one
        self.freezing: dict[int, Freeze] = {}  # by child id: those that are to be stopped
        self.kills = Kills()
        self.ended: set[int] = set()  # ids of children that we killed
        self.cpu_s: dict[int, int] = {}  # by child id: its limit

    def serve(self, parent: int) -> None:
        """Report ready, then answer the runner until it, or the process that started us, is gone; then kill every
        child. SIGTERM ends it in order from the report on."""
        waker, wake_fd = _signal_channel()
        self.runner.send({"ready": self.context["facts"]})
        parent_fd = os.pidfd_open(parent)  # unlike the parent-death signal, not tied to the parent's thread
        poll = select.poll()
        for fd in (self.runner.fileno(), waker.fileno(), parent_fd):
            poll.register(fd, select.POLLIN)
        try:
            while True:
                ready = {fd for fd, _ in poll.poll(self._next_ms())}
                if parent_fd in ready:
                    return
                if waker.fileno() in ready and signal.SIGTERM in waker.recv(4096):  # a byte for each signal
                    return
                self._reap()
                self._freeze()
                if self.runner.fileno() in ready:
                    for message in self.runner.pump():
                        self._obey(message)
        except (WireClosed, WireGarbage, WireTimeout):
            return
        finally:
            wake_fd.close()
            self._kill_all()

    def _obey(self, message: Message) -> None:
        if message["op"] == "spawn":
            self._spawn(message)
        elif message["op"] == "kill" and message["id"] in self.pids:
            self._end(message["id"])
        elif message["op"] == "freeze" and message["id"] in self.pids:
            self.freezing[message["id"]] = Freeze(time.monotonic() + message["after_s"])
            self._freeze()
        elif message["op"] == "thaw" and message["id"] in self.pids:
            self.freezing.pop(message["id"], None)
            _signal_group(self.pids[message["id"]], signal.SIGCONT)
        elif message["op"] == "place":
            pid = self.pids.get(message["id"])
            why = move(pid, message["cores"], message["nice"]) if pid is not None else ""
            self.runner.send({"placed": message["id"], "why": why})
        elif message["op"] == "branch":
            self._branch(message["kind"])

    def _next_ms(self) -> float | None:
        """Until the next child is to be stopped."""
        due = [one.at for one in self.freezing.values()]
        return max(0.0, min(due) - time.monotonic()) * 1000 if due else None

    def _freeze(self) -> None:
        """Stop those whose time has come. Who is caught with the GPU's lock goes on for a moment; who never lets go of
        it is ended."""
        for number, one in list(self.freezing.items()):
            pid = self.pids.get(number)
            if pid is None:
                del self.freezing[number]
            elif one.at <= time.monotonic():
                _signal_group(pid, signal.SIGSTOP)
                if not self._holds_gpu(pid):
                    del self.freezing[number]
                elif one.tries < FREEZE_TRIES:
                    _signal_group(pid, signal.SIGCONT)
                    self.freezing[number] = Freeze(time.monotonic() + FREEZE_AGAIN_S, one.tries + 1)
                else:
                    del self.freezing[number]
                    self._end(number)

    def _end(self, number: int) -> None:
        self.ended.add(number)
        _kill_group(self.pids[number])

    def _holds_gpu(self, pid: int) -> bool:
        if self.options.gpu_lock is None:
            return False
        fd = os.open(self.options.gpu_lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return sharing(LockTable(fd).held(), {pid})
        finally:
            os.close(fd)

    def _branch(self, kind: str) -> None:
        """Fork another zygote that shares what is loaded here. It serves its own channel."""
        (fd,) = self.runner.take_fds(1)
        pid = os.fork()
        if pid == 0:
            _become_branch(fd, kind, self.options)  # never returns
        os.close(fd)
        self.branches.append(pid)

    def _spawn(self, message: Message) -> None:
        boss, log = self.runner.take_fds(2)
        if _threads() != 1:
            self.runner.send({"failed": message["id"], "why": "the fork server has more than one thread"})
            return
        self.kills.started(message["id"])
        pid = os.fork()
        if pid == 0:
            child.begin(boss, log, message, self.context)  # never returns
        os.close(boss)
        os.close(log)
        self.pids[message["id"]] = pid
        self.cpu_s[message["id"]] = message["cpu_s"]
        self.runner.send({"spawned": message["id"], "pid": pid})

    def _reap(self) -> None:
        """Report ended children and kill what they left behind, before their process ids can be used again."""
        for number, pid in list(self.pids.items()):
            if os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                continue
            _kill_group(pid)
            _, status, usage = os.wait4(pid, 0)
            del self.pids[number]
            self._reap_orphans()  # now, so that "exited" means that nothing of it lives
            cause = self.kills.cause(
                number,
                status,
                by_judge=number in self.ended,
                cpu_s=usage.ru_utime + usage.ru_stime,
                limit_s=self.cpu_s.pop(number),
            )
            self.ended.discard(number)
            self.runner.send({"exited": number, "status": status, "peak_kb": usage.ru_maxrss, "cause": cause})
        self._reap_orphans()

    def _reap_orphans(self) -> None:
        """Descendants whose own parent died come to us; nothing honest leaves any, so they are killed."""
        known = {*self.pids.values(), *self.branches}
        path = Path(f"/proc/self/task/{os.getpid()}/children")
        while True:
            try:
                orphans = [int(pid) for pid in path.read_text().split() if int(pid) not in known]
            except OSError:
                return
            if not orphans:
                return
            for pid in orphans:
                os.kill(pid, signal.SIGKILL)
            for pid in orphans:
                os.waitpid(pid, 0)

    def _kill_all(self) -> None:
        for pid in self.branches:  # they see the runner's end themselves; this is for when only we were asked to go
            os.kill(pid, signal.SIGKILL)  # at once, preloading or not; its children come to us
            os.waitpid(pid, 0)
        self.branches.clear()
        for pid in self.pids.values():
            _kill_group(pid)
        for pid in self.pids.values():
            os.waitpid(pid, 0)
        self.pids.clear()
        self._reap_orphans()


def _kill_group(pid: int) -> None:
    _signal_group(pid, signal.SIGKILL)


def _signal_group(pid: int, number: signal.Signals) -> None:
    for send in (os.killpg, os.kill):
        try:
            send(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def _signal_channel() -> tuple[socket.socket, socket.socket]:
    reader, writer = socket.socketpair()
    reader.setblocking(False)
    writer.setblocking(False)
    signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM):
        signal.signal(number, lambda number, frame: None)  # the wakeup reports it; raising could be swallowed anywhere
    return reader, writer


def _become_branch(fd: int, kind: str, options: SimpleNamespace) -> NoReturn:
    """A forked zygote's life: its own channel, its own kind, the same runner."""
    status = 1
    try:
        os.setsid()
        sandbox.die_with_parent()
        signal.set_wakeup_fd(-1)
        options.kind = kind
        _run(Channel(socket.socket(fileno=fd)), options)
        status = 0
    except BaseException:  # noqa: BLE001 - a forked process must not unwind into its parent's stack
        traceback.print_exc()
    finally:
        os._exit(status)


def _run(runner: Channel, options: SimpleNamespace) -> None:
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # ends the preload at once: there are no children yet
    Zygote(runner, options, preload(options)).serve(options.parent)


def _threads() -> int:
    return len(list(Path("/proc/self/task").iterdir()))


def _remember_toolchain() -> None:
    """Hash Triton's own files once: every compile asks for the result, which is kept in the process."""
    for name in ("triton.runtime.cache", "triton.compiler.compiler"):  # it moved between versions
        key = getattr(importlib.import_module(name), "triton_key", None)
        if key is not None:
            key()
            return


def _import_what_launches_need() -> None:
    """Triton imports these at the first launch of a process: 55 ms in every child, once here."""
    for name in ("triton.compiler.code_generator", "triton.experimental.gluon"):
        try:
            importlib.import_module(name)
        except ImportError:
            pass  # not in this version


def _no_monitor_threads() -> None:
    """torch.compile shows its progress by tqdm where that is installed, and tqdm's first bar starts a thread for good:
    an audit would take it for one that works on after the call."""
    try:
        importlib.import_module("tqdm").tqdm.monitor_interval = 0
    except ImportError:
        pass


def preload(options: SimpleNamespace) -> dict[str, Any]:
    """Import everything a child will need. Returns what children inherit: the adapter, facts, the toolchain."""
    torch = importlib.import_module("torch")
    importlib.import_module("torch._dynamo")  # seconds; any dispatch mode needs it
    _no_monitor_threads()
    torch.set_num_threads(1)
    compiles = options.kind == "recorder"  # on the processor, behind those that measure
    device = "cpu" if compiles else options.device
    context: dict[str, Any] = {"device": device, "target": options.target, "adapter": None}
    context["nice"] = NICE if compiles else 0
    facts: dict[str, Any] = {"python": sys.version.split()[0], "torch": torch.__version__, "cuda": torch.version.cuda}
    try:
        triton = importlib.import_module("triton")
        importlib.import_module("triton.language.extra.libdevice")
    except ImportError:
        facts["triton"] = None
    else:
        facts["triton"] = triton.__version__
        _remember_toolchain()
        _import_what_launches_need()
        if options.kind != "interpreter":
            arch = int(options.target.removeprefix("sm_"))
            importlib.import_module("judge.bench.processes.warm_up").remember_answers(
                arch, cuda=options.device.startswith("cuda")
            )
    if options.kind == "interpreter":
        context["adapter"] = importlib.import_module("judge.bench.interpreting.interpreter").install(options.target)
    elif options.kind == "recorder":
        arch = int(options.target.removeprefix("sm_"))
        context["adapter"] = importlib.import_module("judge.bench.compiling.recorded_triton").install(arch)
    for role, name in child.ROLES.items():
        if role in ("subject", "compiler", "stubs") or options.kind == "plain":
            importlib.import_module(name)
    importlib.import_module("judge.bench.subjects.harness").survey()
    facts["threads"] = _threads()
    facts["cuda_touched"] = torch.cuda.is_initialized()
    context["facts"] = facts
    return context


def main() -> None:
    options = SimpleNamespace(**json.loads(sys.argv[1]))
    move(os.getpid(), options.cores)  # children are forked there
    try:
        _run(Channel(socket.socket(fileno=options.socket)), options)
    finally:
        if not Path(f"/proc/{options.parent}").exists():
            wipe(Path(options.root))  # the runner was killed and cannot tidy up
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # tearing torch down takes seconds and helps nobody


if __name__ == "__main__":
    main()
