"""What a child gives up before it may run somebody else's code, layer by layer. Standard library only.

Order: namespaces first (they need a single thread), then the device's context (Landlock before it breaks CUDA), then
`lock`, then the candidate. Every layer is reported as "active", "unavailable" (the kernel refused) or "off".
"""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import signal
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from judge.bench.sandboxing import landlock, seccomp

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_USER, NEW_NET, NEW_IPC, NEW_UTS = 0x10000000, 0x40000000, 0x08000000, 0x04000000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_CAPBSET_DROP = 1, 4, 24
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


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent dies."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def enter_namespaces() -> Layers:
    """Leave the host's network, IPC objects and user ids. Must run while the process has one thread."""
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0 and os.getuid() == 0:
        # The kernel exempts real root from the process limit; only the real id counts, files go by the effective one.
        try:
            os.setresuid(NOBODY, 0, 0)
        except OSError:
            pass
    if LIBC.unshare(NEW_USER | NEW_NET | NEW_IPC | NEW_UTS) != 0:
        return {"namespaces": "unavailable"}
    try:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{NOBODY} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{NOBODY} {gid} 1")
    except OSError:
        return {"namespaces": "partial"}  # isolated, but without mapped ids
    return {"namespaces": "active"}


def lock(bounds: Bounds, *, namespaced: bool) -> Layers:
    """Give up privileges, files, calls and unlimited resources, for good. Call after the device's context exists."""
    layers = {"rlimits": "active", "memory_limit": "active" if bounds.memory_mb else "off"}
    layers["process_limit"] = _limit(bounds, namespaced=namespaced)
    layers["capabilities"] = "active" if _drop_capabilities() else "unavailable"
    layers["no_new_privs"] = "active" if LIBC.prctl(seccomp.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 else "unavailable"
    LIBC.prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)  # siblings may not read our memory, same user or not
    die_with_parent()  # again: changing ids forgets it
    devices = _gpu_devices() if bounds.cuda else []
    try:
        version = landlock.restrict(
            read=[*READABLE, *toolchain_folders()],
            write=[bounds.folder],
            devices=["/dev/null", "/dev/tty", *devices],
        )
        layers["landlock"] = f"active (abi {version})" if version else "unavailable"
    except OSError as error:
        layers["landlock"] = f"unavailable ({error.strerror})"
    # CUDA shares memory by way of abstract sockets, which end at the network namespace: inside one, all that connecting
    # could still reach are the sockets in files, which Landlock does not guard: our broker's, a database's.
    filtered = seccomp.install(
        allow_fork=bounds.allow_fork, allow_socket=bounds.cuda, allow_connect=bounds.cuda and not namespaced
    )
    layers["seccomp"] = "active" if filtered else "unavailable"
    return layers


def missing(layers: Layers, required: Iterable[str]) -> list[str]:
    """Required layers that are not active."""
    return [name for name in required if not layers.get(name, "off").startswith("active")]


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


def _gpu_devices() -> list[str]:
    return [str(path) for path in Path("/dev").glob("nvidia*")]


def _limit(bounds: Bounds, *, namespaced: bool) -> str:
    limits = {
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_FSIZE: 1 << 30,
        resource.RLIMIT_NOFILE: 4096 if bounds.cuda else 256,
        resource.RLIMIT_CPU: bounds.cpu_s,
    }
    if bounds.memory_mb is not None:
        limits[resource.RLIMIT_AS] = address_space_bytes() + (bounds.memory_mb << 20)
    if namespaced:  # counted inside the namespace; without one it would count all the user's processes
        limits[resource.RLIMIT_NPROC] = PROCESSES_CUDA if bounds.cuda else PROCESSES_CPU
    for kind, value in limits.items():
        _, hard = resource.getrlimit(kind)
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (value, value))
    return "active" if namespaced and os.getuid() != 0 else "unavailable"


def address_space_bytes() -> int:
    """Mapped address space of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _drop_capabilities() -> bool:
    for capability in range(64):
        LIBC.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    header = struct.pack("Ii", 0x20080522, 0)
    return bool(LIBC.capset(header, struct.pack("6I", *[0] * 6)) == 0)
