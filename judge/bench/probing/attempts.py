"""What the doctor tries from inside a child: each attempt belongs to the layer that should stop it.

The same list runs in a child without a sandbox. What fails there too proves nothing about ours. Standard library only.
"""

from __future__ import annotations

import ctypes
import errno
import mmap
import os
import resource
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from judge.bench.sandboxing import calls
from judge.bench.sandboxing.sandbox import PROCESSES_CPU, PROCESSES_CUDA

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_SEIZE, PTRACE_INTERRUPT, PTRACE_DETACH, WALL = 0x4206, 0x4207, 17, 0x40000000
PR_GET_NO_NEW_PRIVS = 39
NEW_USER = 0x10000000
THROUGH = "through"


@dataclass(frozen=True)
class Targets:
    """What there is to reach, all of it made by the doctor for the purpose."""

    file: str  # readable by all
    folder: str  # writable by all
    port: int  # a TCP server of this machine
    unix: str  # a socket in a file
    abstract: str  # the name of a socket that no file system holds
    neighbour: int  # process id of another child
    namespaces: dict[str, str]  # the doctor's own, by kind
    secret: str  # a variable of the doctor's environment
    memory_mb: int
    cuda: bool

    @property
    def parent(self) -> str:
        return f"/proc/{os.getppid()}"


@dataclass(frozen=True)
class Attempt:
    """`step` returns when it got through and raises OSError or MemoryError when it was stopped."""

    name: str
    layer: str
    label: str
    step: Callable[[Targets], object]
    controlled: bool = True  # it gets through where there is no sandbox


def _in_fork(step: Callable[[], object]) -> None:
    """Run `step` in a child of its own. Raises OSError with the child's errno."""
    pid = os.fork()
    if pid == 0:
        try:
            step()
            os._exit(0)
        except OSError as error:
            os._exit(error.errno or 255)
        finally:
            os._exit(254)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    if code:
        raise OSError(abs(code), os.strerror(abs(code)))


def _reach_call(name: str, *arguments: int) -> None:
    """A call that the kernel answers with anything but a refusal was reached, whatever it thinks of the arguments."""
    given = [ctypes.c_ulong(value) for value in arguments] + [ctypes.c_ulong(0)] * (6 - len(arguments))
    architecture = calls.here()
    if architecture is None:
        raise OSError(errno.ENOSYS, "its number is unknown on this architecture")
    result = LIBC.syscall(architecture.number(name), *given)
    if ctypes.get_errno() in (errno.EPERM, errno.ENOSYS):
        calls.checked(result)


def _read(path: str) -> None:
    with Path(path).open("rb") as file:
        file.read(1)


def _read_memory(path: str) -> None:
    with Path(path).open("rb", buffering=0) as file:
        file.seek(id(None))  # a fork has its parent's addresses
        file.read(8)


def _create(path: str) -> None:
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))
    Path(path).unlink()


def _append(path: str) -> None:
    with Path(path).open("ab"):
        pass


def _trace(pid: int) -> None:
    calls.checked(LIBC.ptrace(PTRACE_SEIZE, pid, None, None))
    LIBC.ptrace(PTRACE_INTERRUPT, pid, None, None)
    os.waitpid(pid, WALL)
    LIBC.ptrace(PTRACE_DETACH, pid, None, None)


def _copy_memory(pid: int) -> None:
    buffer = ctypes.create_string_buffer(8)
    mine = (ctypes.c_ulong * 2)(ctypes.addressof(buffer), 8)
    theirs = (ctypes.c_ulong * 2)(id(None), 8)
    _reach_call("process_vm_readv", pid, ctypes.addressof(mine), 1, ctypes.addressof(theirs), 1, 0)


def _connect(to: str | int) -> None:
    """`to`: the name of a Unix socket, or a TCP port of this machine."""
    with socket.socket(socket.AF_INET if isinstance(to, int) else socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(5)
        link.connect(("127.0.0.1", to) if isinstance(to, int) else to)


def _limits_of(pid: int) -> None:
    resource.prlimit(pid, resource.RLIMIT_NOFILE)


def _new_namespace() -> None:
    calls.checked(LIBC.unshare(NEW_USER))


def _slow_down(pid: int) -> None:
    before = os.getpriority(os.PRIO_PROCESS, pid)
    os.setpriority(os.PRIO_PROCESS, pid, min(19, before + 1))
    _changed(os.getpriority(os.PRIO_PROCESS, pid) != before)


def _change_mode(path: str) -> None:
    before = Path(path).stat().st_mode
    Path(path).chmod(0o664 if before & 0o777 == 0o644 else 0o644)
    _changed(Path(path).stat().st_mode != before)


def _changed(happened: bool) -> None:
    if not happened:
        raise PermissionError(errno.EPERM, "it was only pretended")


def _shares(kind: str, targets: Targets) -> None:
    if str(Path(f"/proc/self/ns/{kind}").readlink()) != targets.namespaces[kind]:
        raise PermissionError(errno.EPERM, "a namespace of its own")


def _fork_on(targets: Targets) -> None:
    """More processes than a child may have. They end with the pipe: the filter lets nobody signal them."""
    pids: list[int] = []
    reader, writer = os.pipe()
    try:
        for _ in range((PROCESSES_CUDA if targets.cuda else PROCESSES_CPU) + 16):
            pid = os.fork()
            if pid == 0:
                os.close(writer)
                os.read(reader, 1)
                os._exit(0)
            pids.append(pid)
    finally:
        os.close(writer)
        os.close(reader)
        for pid in pids:
            os.waitpid(pid, 0)


def _open_many(targets: Targets) -> None:
    wanted = 4096 + 8 if targets.cuda else 256 + 8
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    opened: list[int] = []
    try:
        while len(opened) < wanted:
            opened.append(os.open("/dev/null", os.O_RDONLY))
    finally:
        for fd in opened:
            os.close(fd)


def _grow_file(targets: Targets) -> None:
    with Path("grown").open("wb") as file:
        file.truncate((1 << 30) + 1)  # holes only


def _map_memory(targets: Targets) -> None:
    mmap.mmap(-1, targets.memory_mb << 21).close()


def _gain_privileges(targets: Targets) -> None:
    _changed(LIBC.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 0)


def _has_capabilities(targets: Targets) -> None:
    rows = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    _changed(int(rows["CapEff"], 16) != 0)


def _see_secret(targets: Targets) -> None:
    _changed(targets.secret in os.environ)


# fmt: off
ATTEMPTS = (
    Attempt("read_file", "landlock", "read a file outside", lambda t: _read(t.file)),
    Attempt("list_folder", "landlock", "list a folder outside", lambda t: os.listdir(t.folder)),  # noqa: PTH208
    Attempt("list_root", "landlock", "list the root folder", lambda t: os.listdir("/")),  # noqa: PTH208
    Attempt("write_file", "landlock", "create a file outside", lambda t: _create(f"{t.folder}/made")),
    Attempt("append_file", "landlock", "write to a file outside", lambda t: _append(t.file)),
    Attempt("edit_library", "landlock", "write to Python's library", lambda t: _append(os.__file__)),
    Attempt("fill_shm", "landlock", "create a file in /dev/shm", lambda t: _create(f"/dev/shm/probe-{os.getpid()}")),
    Attempt("read_environment", "landlock", "read the parent's environment", lambda t: _read(f"{t.parent}/environ")),
    Attempt("read_memory", "landlock", "read the parent's memory file", lambda t: _read_memory(f"{t.parent}/mem")),
    Attempt("trace_parent", "seccomp", "trace the parent", lambda t: _trace(os.getppid())),
    Attempt("copy_memory", "seccomp", "copy the parent's memory", lambda t: _copy_memory(os.getppid())),
    Attempt("signal_parent", "seccomp", "signal the parent", lambda t: os.kill(os.getppid(), 0)),
    Attempt("signal_neighbour", "seccomp", "signal another child", lambda t: os.kill(t.neighbour, 0)),
    Attempt("slow_neighbour", "seccomp", "slow down another child", lambda t: _slow_down(t.neighbour)),
    Attempt("limit_parent", "seccomp", "reach the parent's limits", lambda t: _limits_of(os.getppid())),
    Attempt("new_session", "seccomp", "leave the process group", lambda t: _in_fork(os.setsid)),
    Attempt("new_namespace", "seccomp", "make a namespace", lambda t: _in_fork(_new_namespace)),
    Attempt("change_mode", "seccomp", "change the mode of a file outside", lambda t: _change_mode(t.file)),
    Attempt("io_uring", "seccomp", "use io_uring", lambda t: _reach_call("io_uring_setup", 1)),
    Attempt("bpf", "seccomp", "use bpf", lambda t: _reach_call("bpf", 99)),
    Attempt("keyring", "seccomp", "use the kernel's keyrings", lambda t: _reach_call("keyctl", 0, 2**64 - 3)),
    Attempt("unix_connect", "namespaces", "connect to a socket in a file", lambda t: _connect(t.unix)),
    Attempt("share_network", "namespaces", "share the machine's network", lambda t: _shares("net", t)),
    Attempt("share_ipc", "namespaces", "share the machine's IPC objects", lambda t: _shares("ipc", t)),
    Attempt("share_users", "namespaces", "share the machine's user ids", lambda t: _shares("user", t)),
    Attempt("tcp_connect", "namespaces", "connect to a server of this machine", lambda t: _connect(t.port)),
    Attempt("abstract_connect", "namespaces", "connect to an abstract socket", lambda t: _connect(t.abstract)),
    Attempt("see_file", "files", "see a file outside", lambda t: os.stat(t.file)),  # noqa: PTH116
    Attempt("shared_segment", "seccomp", "make a shared memory segment", lambda t: _reach_call("shmget")),
    Attempt("gain_privileges", "no_new_privs", "gain privileges by running a file", _gain_privileges),
    Attempt("have_capabilities", "capabilities", "keep a capability", _has_capabilities),
    Attempt("open_many", "rlimits", "open more files than allowed", _open_many),
    Attempt("grow_file", "rlimits", "write a file of more than 1 GiB", _grow_file),
    Attempt("map_memory", "memory_limit", "take more memory than allowed", _map_memory),
    Attempt("fork_on", "process_limit", "start more processes than allowed", _fork_on),
    Attempt("see_secret", "environment", "see a variable of the server's environment", _see_secret, controlled=False),
)
# fmt: on


def try_all(targets: Targets) -> dict[str, str]:
    """Name of each attempt -> "through", or the name of the error that stopped it."""
    return {attempt.name: _try(attempt, targets) for attempt in ATTEMPTS}


def _try(attempt: Attempt, targets: Targets) -> str:
    try:
        attempt.step(targets)
    except MemoryError:
        return "ENOMEM"
    except OSError as error:
        return errno.errorcode.get(error.errno or 0, type(error).__name__)
    return THROUGH
