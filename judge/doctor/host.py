"""The host as a judge meets it: container, kernel, Landlock, namespaces, drivers, and which GPUs it can serve."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from judge.bench.probing.attempts import ATTEMPTS, THROUGH, Attempt, Targets
from judge.bench.sandboxing import landlock, seccomp
from judge.doctor.probing import Probed
from judge.doctor.report import advice_for
from judge.values import Limits

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
    def words(self) -> str:
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


ACTIVE, FAILED, BROKEN, UNTRIED = "active", "failed", "BROKEN", "untried"
PROTECTS = {
    "landlock": "files: only the toolchain can be read, only the private folder written",
    "seccomp": "system calls: other processes, sockets, kernel interfaces",
    "namespaces": "the machine's network, IPC objects and user ids",
    "rlimits": "descriptors, file sizes, processor time",
    "memory_limit": "memory of the machine",
    "process_limit": "the process table, from fork bombs",
    "no_new_privs": "against programs that run as another user",
    "capabilities": "the powers of root",
    "environment": "keys and addresses in the server's environment",
    "private_folder": "one evaluation from what another left behind",
    "parent_death": "against children that outlive the judge",
}


@dataclass(frozen=True)
class Tried:
    """One attempt: `result` is held, through, or moot (it fails on this machine without a sandbox too)."""

    words: str
    result: str
    how: str  # the error that stopped it


@dataclass(frozen=True)
class Layer:
    """`state`: active, failed, unavailable, off, partial, or BROKEN: said to be active, but an attempt got through."""

    name: str
    state: str
    claim: str
    protects: str
    required: bool
    tried: tuple[Tried, ...]
    advice: tuple[str, ...]

    @property
    def fails(self) -> bool:
        """Whether the machine must not judge uploaded code like this."""
        return self.state == BROKEN or (self.required and self.state != ACTIVE)


def layers_of(probed: Probed, host: Host, required: Iterable[str], *, cuda: bool) -> tuple[Layer, ...]:
    """Every layer, in the order of PROTECTS."""
    wanted = frozenset(required)
    claims = {**probed.layers, **_observed(probed)}
    return tuple(_layer(name, claims.get(name, "off"), probed, host, name in wanted, cuda) for name in PROTECTS)


def _observed(probed: Probed) -> dict[str, str]:
    """Layers that no child reports: they can only be watched."""
    death = "BROKEN: a child still lived after its fork server was killed"
    if probed.outlived_s is not None:
        death = f"active (gone after {probed.outlived_s * 1000:.0f} ms)"
    return {
        "environment": ACTIVE,
        "private_folder": ACTIVE if probed.folder_wiped else "BROKEN: the folder was still there",
        "parent_death": death,
    }


def _layer(name: str, claim: str, probed: Probed, host: Host, required: bool, cuda: bool) -> Layer:
    tried = tuple(_tried(attempt, probed) for attempt in ATTEMPTS if attempt.layer == name)
    state = claim.split()[0].rstrip(":")
    if state == ACTIVE and any(attempt.result == "through" for attempt in tried):
        state = BROKEN
    advice = [] if state == ACTIVE else advice_for(name, host, cuda=cuda)
    if state == FAILED and not advice:
        advice = [f"The kernel has this layer and a call failed: {claim}. Please report it with this output."]
    if state == BROKEN:
        advice = ["This is a fault of the judge, not of the machine: please report it with this output."]
    return Layer(name, state, claim, PROTECTS[name], required, tried, tuple(advice))


def _tried(attempt: Attempt, probed: Probed) -> Tried:
    how = probed.inside.get(attempt.name, UNTRIED)
    if how == THROUGH:
        return Tried(attempt.words, "through", "")
    if attempt.controlled and probed.outside.get(attempt.name) != THROUGH:
        return Tried(attempt.words, "moot", how)
    return Tried(attempt.words, "held", how)


NAMESPACE_TARGETS = ("net", "ipc", "user")
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
            namespaces={kind: str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACE_TARGETS},
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
