"""What this machine says of itself: kernel, switches, container, cgroup. Files below `root`, so that tests can lie."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from judge.bench.sandboxing import landlock, seccomp

NAMESPACES = 0x10000000 | 0x40000000 | 0x08000000 | 0x04000000  # user, network, IPC, UTS: what the sandbox makes
_UNSHARE = (
    "import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); "
    f"sys.exit(ctypes.get_errno() if libc.unshare({NAMESPACES}) else 0)"
)


@dataclass(frozen=True)
class Host:
    """Facts behind the advice. Numbers are None where the file does not exist; errors are names such as "EPERM"."""

    kernel: str
    machine: str
    container: str  # docker, podman, kubernetes, lxc, or empty
    root: bool
    lsm: tuple[str, ...]  # security modules in use; empty when the kernel does not tell
    landlock: str  # "abi 7", or the error of the call
    seccomp: bool
    filtered: bool  # this process runs under somebody's filter itself, a container's for example
    namespaces: str  # empty, or the error of an attempt to make them
    userns_clone: int | None  # kernel.unprivileged_userns_clone (Debian)
    max_user_namespaces: int | None
    apparmor_userns: int | None  # kernel.apparmor_restrict_unprivileged_userns (Ubuntu)
    ptrace_scope: int | None
    cgroup: Cgroup
    bubblewrap: str  # "works", "absent", or what it said
    clock_source: str


@dataclass(frozen=True)
class Cgroup:
    """The control group of this process. Limits are None when there is none, or none to be seen."""

    path: str
    version: int
    pids_max: int | None
    memory_max_bytes: int | None
    delegated: bool  # we could make groups below it

    @property
    def summary(self) -> str:
        pids = f"{self.pids_max:,} processes" if self.pids_max is not None else "processes unlimited"
        memory = f"{self.memory_max_bytes / 2**30:.1f} GiB" if self.memory_max_bytes is not None else "memory unlimited"
        return f"v{self.version} {self.path}: {pids}, {memory}, {'delegated' if self.delegated else 'not delegated'}"


def read_host(root: Path = Path("/")) -> Host:
    """Look around. Takes some ten milliseconds: it starts two small processes."""
    sysctl = root / "proc/sys"
    return Host(
        kernel=platform.release(),
        machine=platform.machine(),
        container=_container(root, os.environ.get),
        root=os.geteuid() == 0,
        lsm=tuple(part for part in _text(root / "sys/kernel/security/lsm").split(",") if part),
        landlock=_landlock(),
        seccomp=seccomp.available(),
        filtered="\nSeccomp:\t2" in _text(root / "proc/self/status"),
        namespaces=_namespaces(),
        userns_clone=_number(sysctl / "kernel/unprivileged_userns_clone"),
        max_user_namespaces=_number(sysctl / "user/max_user_namespaces"),
        apparmor_userns=_number(sysctl / "kernel/apparmor_restrict_unprivileged_userns"),
        ptrace_scope=_number(sysctl / "kernel/yama/ptrace_scope"),
        cgroup=read_cgroup(root),
        bubblewrap=_bubblewrap(),
        clock_source=_text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource") or "unknown",
    )


def read_cgroup(root: Path = Path("/")) -> Cgroup:
    """The control group, of version 2 where that has controllers, else of version 1."""
    rows = [line.split(":", 2) for line in _text(root / "proc/self/cgroup").splitlines() if line.count(":") >= 2]
    unified = next((path for number, names, path in rows if number == "0" and not names), "/")
    mount = root / "sys/fs/cgroup"
    if (mount / "cgroup.controllers").exists():
        here = mount / unified.lstrip("/")
        subtree = _text(here / "cgroup.subtree_control").split()
        delegated = os.access(here, os.W_OK) and "pids" in subtree
        return Cgroup(unified, 2, _number(here / "pids.max"), _number(here / "memory.max"), delegated)
    own = {name: path for _, names, path in rows for name in names.split(",")}
    pids = mount / "pids" / own.get("pids", "/").lstrip("/")
    memory = mount / "memory" / own.get("memory", "/").lstrip("/")
    limit = _number(memory / "memory.limit_in_bytes")
    return Cgroup(
        own.get("pids", "/"),
        1,
        _number(pids / "pids.max"),
        limit if limit is not None and limit < 1 << 60 else None,  # no limit is a huge number there
        os.access(pids, os.W_OK),
    )


def _container(root: Path, variable: Callable[[str], str | None]) -> str:
    if variable("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    for path, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
        if (root / path).exists():
            return name
    groups = _text(root / "proc/1/cgroup")
    return next((name for name in ("kubepods", "docker", "lxc") if name in groups), "").replace(
        "kubepods", "kubernetes"
    )


def _landlock() -> str:
    version = landlock.abi()
    if version:
        return f"abi {version}"
    return errno.errorcode.get(ctypes.get_errno(), "ENOSYS")


def _namespaces() -> str:
    """Make the namespaces in a process of its own, as one of this account without privileges would."""
    try:
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", _UNSHARE], capture_output=True, timeout=30, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    return errno.errorcode.get(done.returncode, f"status {done.returncode}") if done.returncode else ""


def _bubblewrap() -> str:
    path = shutil.which("bwrap")
    if path is None:
        return "absent"
    command = [path, "--unshare-all", "--ro-bind", "/", "/", "--die-with-parent", "true"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False, env={})
    except (OSError, subprocess.TimeoutExpired) as error:
        return str(error)
    return "works" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["it fails"])[-1][:200]


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""


def _number(path: Path) -> int | None:
    text = _text(path)
    return int(text) if text.isdigit() else None
