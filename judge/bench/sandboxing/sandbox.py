"""What a child gives up before it may run somebody else's code, layer by layer. Standard library only.

Order: namespaces first (they need a single thread), then the device's context (Landlock before it breaks CUDA; a driver
starts threads here), then `lock`, then the candidate. Every layer is reported as "active" (its calls worked and it was
seen to hold), "unavailable" (this kernel does not offer it to this process), "failed" (a call or the look at its effect
failed), "partial" or "off", with the reason in parentheses. Only "active" counts as protection; what belongs to a
thread is active when every thread of the process has it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import shutil
import signal
import struct
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from judge.bench.sandboxing import landlock, mounts, seccomp, threads
from judge.bench.sandboxing.calls import checked

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_NET, NEW_IPC, NEW_UTS = 0x10000000, 0x40000000, 0x08000000, 0x04000000
PR_SET_PDEATHSIG, PR_GET_DUMPABLE, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 3, 4, 24
PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 38, 39
CAPABILITY_VERSION = 0x20080522  # three sets of two words each: effective, permitted, inheritable
NOBODY = 65534
PROCESSES_CPU, PROCESSES_CUDA = 64, 512

Layers = dict[str, str]

READABLE = (
    "/usr",
    "/lib",
    "/lib64",
    "/bin",
    "/sbin",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/proc/self",
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/driver/nvidia",
    "/sys/devices/system",
    "/sys/bus/pci",
    "/dev/urandom",
    "/dev/random",
    "/dev/zero",
    "/dev/full",
)


@dataclass(frozen=True)
class Bounds:
    """How one child is bounded: megabytes beyond the preloaded parent (None: not by address space), CPU seconds."""

    folder: str
    memory_mb: int | None
    cpu_s: int
    allow_fork: bool
    cuda: bool
    allow_memfd: bool = True


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies. Raises OSError."""
    checked(LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0))


OUTSIDE: Layers = {"namespaces": "off", "files": "off"}
OWN_MOUNTS = "partial (the whole file system)"  # between `enter_namespaces` and `lock`


def enter_namespaces() -> Layers:
    """Leave the host's network, IPC objects, mounts and user ids. Must run while the process has one thread."""
    namespaces = _leave_host()
    if namespaces != "active":
        return {"namespaces": namespaces, "files": "unavailable (no user namespace with mapped ids)"}
    if LIBC.unshare(mounts.NEW_MOUNTS) != 0:
        return {"namespaces": namespaces, "files": f"unavailable ({os.strerror(ctypes.get_errno())})"}
    return {"namespaces": namespaces, "files": OWN_MOUNTS}


def _leave_host() -> str:
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and os.getuid() == 0:
        # The kernel exempts real root from the process limit; only the real id counts, files go by the effective one.
        try:
            os.setresuid(NOBODY, 0, 0)
        except OSError:
            pass
    before = _namespaces()
    if LIBC.unshare(NEW_USER | NEW_NET | NEW_IPC | NEW_UTS) != 0:
        return f"unavailable ({os.strerror(ctypes.get_errno())})"
    shared = sorted(before & _namespaces())
    if shared:
        return f"failed (still shared: {', '.join(shared)})"
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{NOBODY} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{NOBODY} {gid} 1")
    except OSError as error:
        return f"partial (ids are not mapped: {error.strerror})"
    return "active"


def namespaced(layers: Layers) -> bool:
    """Whether the namespaces were left, with ids mapped or without."""
    return layers["namespaces"].startswith(("active", "partial"))


def _namespaces() -> set[str]:
    """What the kernel calls those that this process is in, such as "net:[4026531840]"."""
    return {str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in ("user", "net", "ipc", "uts")}


def without_capabilities(step: Callable[[], None]) -> None:
    """Run `step` on a thread that has none, nor have the threads that it starts: those of a driver. This one keeps its
    own for `lock`. Raises what `step` raises."""

    def run() -> None:
        _state(_drop_capabilities)  # where that fails, `lock` sees it
        step()

    threads.run_apart(run)


def lock(bounds: Bounds, entered: Layers = OUTSIDE) -> Layers:
    """Give up privileges, files, calls and unlimited resources, for good. Call after the device's context exists, with
    what `enter_namespaces` said. All layers are returned.

    A layer that fails is reported and the others are still set up. Raises OSError where the child cannot be tied to its
    parent or closed to its siblings: nothing may run then.
    """
    inside = namespaced(entered)
    steps: dict[str, Callable[[], str]] = {
        "files": lambda: _leave_files(bounds, entered["files"]),
        "rlimits": lambda: _limit_resources(bounds),
        "memory_limit": lambda: _limit_memory(bounds),
        "process_limit": lambda: _limit_processes(bounds, namespaced=inside),
        "capabilities": _drop_capabilities,
        "no_new_privs": _renounce_privileges,
    }
    layers = entered | {name: _state(step) for name, step in steps.items()}
    checked(LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))  # siblings may not read our memory, same user or not
    if LIBC.prctl(PR_GET_DUMPABLE, 0, 0, 0, 0) != 0:
        raise OSError(errno.ENOTSUP, "siblings could read this process")
    die_with_parent()  # again: changing ids forgets it
    layers["landlock"] = _state(lambda: _guard_files(bounds))
    layers["seccomp"] = _state(lambda: _filter_calls(bounds, namespaced=inside))
    return layers | {name: _everywhere(layers[name], count) for name, count in BY_THREAD.items()}


# Layers of a thread that the filter's way to all threads, and where the driver's threads came from, put on the others.
BY_THREAD = {"capabilities": threads.with_capabilities, "no_new_privs": threads.without_no_new_privs}


def _everywhere(state: str, count: Callable[[], int]) -> str:
    """What is active on this thread, seen on every one."""
    if state != "active":
        return state
    return _state(lambda: f"partial ({n} threads of the driver without it)" if (n := count()) else state)


def _state(step: Callable[[], str]) -> str:
    try:
        return step()
    except (OSError, ValueError) as error:  # setrlimit raises both
        return f"failed ({getattr(error, 'strerror', None) or error})"


def _leave_files(bounds: Bounds, entered: str) -> str:
    """For every thread of the process what Landlock is for this one."""
    if entered != OWN_MOUNTS:
        return entered
    leave_files(bounds)
    return "active"


def leave_files(bounds: Bounds, also: Iterable[str] = ()) -> None:
    """Leave the host's file system, in a mount namespace that has just been entered; `also` names more to read. Raises
    OSError."""
    read = [*READABLE, *toolchain_folders(), sys.executable, "/proc", *also]  # /proc: a fork looks for itself there
    mounts.enter(read=read, write=bounds.folder, devices=_devices(bounds))


def _guard_files(bounds: Bounds) -> str:
    version = landlock.restrict(read=[*READABLE, *toolchain_folders()], write=[bounds.folder], devices=_devices(bounds))
    if not version:
        return "unavailable"
    outside = 0 if version >= landlock.THREADS_SINCE else threads.others()
    if outside:
        return f"partial ({outside} threads of the driver without it; abi {version})"
    return f"active (abi {version})"


def _filter_calls(bounds: Bounds, *, namespaced: bool) -> str:
    # CUDA shares memory by way of abstract sockets, which end at the network namespace: inside one, all that connecting
    # could still reach are the sockets in files, which Landlock does not guard: our broker's, a database's.
    filtered = seccomp.install(
        allow_fork=bounds.allow_fork,
        allow_socket=bounds.cuda,
        allow_connect=bounds.cuda and not namespaced,
        allow_memfd=bounds.allow_memfd,
    )
    return "active" if filtered else "unavailable"


def missing(layers: Layers, required: Iterable[str]) -> list[str]:
    """Required layers that are not active. Landlock may leave out a driver's threads, as it does on every kernel before
    its version THREADS_SINCE: who wants those held as well requires `files`."""
    return [name for name in required if not layers.get(name, "off").startswith(ENOUGH.get(name, ("active",)))]


ENOUGH = {"landlock": ("active", "partial")}


def toolchain_folders() -> Iterable[str]:
    """Folders that Python, torch, Triton and the C compiler are read from."""
    found = {sys.prefix, sys.base_prefix, sys.exec_prefix, str(Path(__file__).resolve().parents[2])}
    found.update(entry for entry in sys.path if "site-packages" in entry or "dist-packages" in entry)
    for name in ("torch", "triton", "numpy"):
        module = sys.modules.get(name)
        if module is not None and getattr(module, "__file__", None):
            found.add(str(Path(str(module.__file__)).parent))
    for variable in ("LD_LIBRARY_PATH", "CUDA_HOME", "CUDA_PATH"):
        found.update(part for part in os.environ.get(variable, "").split(":") if part.startswith("/"))
    for name in (os.environ.get("CC", ""), "gcc", "cc", "clang", "ld"):  # Triton builds its launchers with it
        compiler = name and shutil.which(name)
        if compiler:
            for place in {Path(compiler).parent, Path(compiler).resolve().parent}:
                found.add(str(place))
                found.update(str(place.parent / name) for name in ("lib", "lib64", "libexec", "include"))
    return sorted(found)


def _devices(bounds: Bounds) -> list[str]:
    return ["/dev/null", "/dev/tty", *(_gpu_devices() if bounds.cuda else [])]


def _gpu_devices() -> list[str]:
    return [str(path) for path in Path("/dev").glob("nvidia*")]


def _limit_resources(bounds: Bounds) -> str:
    _set(resource.RLIMIT_CORE, 0)
    _set(resource.RLIMIT_FSIZE, 1 << 30)
    _set(resource.RLIMIT_NOFILE, 4096 if bounds.cuda else 256)
    _set(resource.RLIMIT_CPU, bounds.cpu_s)
    return "active"


def _limit_memory(bounds: Bounds) -> str:
    if bounds.memory_mb is None:
        return "off"
    _set(resource.RLIMIT_AS, address_space_bytes() + (bounds.memory_mb << 20))
    return "active"


def _limit_processes(bounds: Bounds, *, namespaced: bool) -> str:
    """Counted inside the namespace; without one it would count all the user's processes."""
    if not namespaced:
        return "unavailable"
    wanted = PROCESSES_CUDA if bounds.cuda else PROCESSES_CPU
    _set(resource.RLIMIT_NPROC, wanted)
    _, hard = resource.getrlimit(resource.RLIMIT_NPROC)
    resource.setrlimit(resource.RLIMIT_NPROC, (0, hard))
    try:
        started = _can_fork()
    finally:
        resource.setrlimit(resource.RLIMIT_NPROC, (hard, hard))
    if started:
        raise OSError(errno.ENOTSUP, "the kernel exempts this process from the limit")
    return "active"


def _can_fork() -> bool:
    try:
        pid = os.fork()
    except BlockingIOError:  # EAGAIN: there are as many processes as there may be
        return False
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)
    return True


def _set(kind: int, value: int) -> None:
    """Lower a limit to `value`, or leave it where it is lower. Raises OSError or ValueError."""
    _, hard = resource.getrlimit(kind)
    value = value if hard == resource.RLIM_INFINITY else min(value, hard)
    resource.setrlimit(kind, (value, value))
    if resource.getrlimit(kind) != (value, value):
        raise OSError(errno.ENOTSUP, "the kernel took a resource limit and does not apply it")


def address_space_bytes() -> int:
    """Mapped address space of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _drop_capabilities() -> str:
    for capability in range(64):
        dropped = LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
        if dropped != 0 and ctypes.get_errno() not in (errno.EINVAL, errno.EPERM):  # no such one; not ours to drop
            checked(dropped)
    header = struct.pack("Ii", CAPABILITY_VERSION, 0)
    checked(LIBC.capset(header, struct.pack("6I", *[0] * 6)))
    left = ctypes.create_string_buffer(b"\xff" * 24, 24)
    checked(LIBC.capget(header, left))
    if left.raw != bytes(24):
        raise OSError(errno.ENOTSUP, "capabilities are left")
    return "active"


def _renounce_privileges() -> str:
    checked(LIBC.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
    if LIBC.prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) != 1:
        raise OSError(errno.ENOTSUP, "the kernel took no_new_privs and does not apply it")
    return "active"
