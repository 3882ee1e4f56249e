"""Each sandbox layer as a probe found it: what it protects, whether it held, what to do if not."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from judge.bench.probing.attempts import ATTEMPTS, THROUGH, Attempt
from judge.bench.sandboxing.calls import ARCHITECTURES
from judge.bench.sandboxing.sandbox import missing
from judge.doctor.host import Host
from judge.doctor.probing import Probed

DOCKER_FREE = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
KUBERNETES_FREE = "securityContext.seccompProfile.type: Unconfined, or a Localhost profile that allows"
LANDLOCK_CALLS = "landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"


def advice_for(layer: str, host: Host, *, cuda: bool) -> list[str]:
    """What brings `layer` up on `host`; empty for a layer that nothing but a bug can take away."""
    ask = _ADVICE.get(layer)
    return ask(host, cuda) if ask else []


def _landlock(host: Host, cuda: bool) -> list[str]:
    if host.landlock.startswith("abi "):  # it is there, and partial or failed
        found = "From Linux 7.0 on (abi 8) Landlock is for all threads; until then the layer files holds the driver's."
        return [found] if cuda else []
    if host.landlock == "EOPNOTSUPP":
        others = ",".join(name for name in host.lsm if name not in ("landlock", "capability"))
        return [
            f"The kernel has Landlock but does not start it: boot with lsm=landlock{',' + others if others else ''}."
        ]
    if host.landlock == "EPERM" or host.filtered:
        return [_let_through(host, LANDLOCK_CALLS)]
    if _kernel(host) < (5, 13):
        return [f"Kernel {host.kernel} is older than Landlock: use 5.13 or newer."]
    return [f"Kernel {host.kernel} was built without Landlock: use one with CONFIG_SECURITY_LANDLOCK=y."]


def _files(host: Host, cuda: bool) -> list[str]:
    made_of = "It is made of user and mount namespaces: see namespaces."
    if not host.namespaces and host.container in ("docker", "podman"):
        made_of = f"The container's profiles refuse mounts: start it with {DOCKER_FREE}."
    if not cuda:
        return [f"{made_of} Landlock guards the same files on this device."]
    return [f"{made_of} Without it and before Linux 7.0, a driver's threads reach the files of this account."]


def _seccomp(host: Host, cuda: bool) -> list[str]:
    if host.machine not in ARCHITECTURES:
        return [f"The filter knows {' and '.join(ARCHITECTURES)}, not {host.machine}: judge only code you trust here."]
    return [f"Kernel {host.kernel} takes no filters: use one with CONFIG_SECCOMP_FILTER=y."]


def _namespaces(host: Host, cuda: bool) -> list[str]:
    found = []
    if host.userns_clone == 0:
        found.append("Switch user namespaces on: sysctl -w kernel.unprivileged_userns_clone=1")
    if host.max_user_namespaces == 0:
        found.append("Allow user namespaces: sysctl -w user.max_user_namespaces=15000")
    if host.apparmor_userns == 1:
        found.append(
            "AppArmor keeps user namespaces empty: sysctl -w kernel.apparmor_restrict_unprivileged_userns=0, or give "
            "this Python a profile with the rule `userns,`."
        )
    if not found and (host.container or host.filtered):
        found.append(_let_through(host, "unshare and clone with new namespaces"))
    return found or [f"The kernel refuses new namespaces ({host.namespaces or 'in the child only'})."]


def _let_through(host: Host, calls: str) -> str:
    if host.container == "kubernetes":
        return f"The pod's system call filter refuses it: {KUBERNETES_FREE} {calls}."
    if host.container in ("docker", "podman"):
        return f"The container's filter refuses it: start it with {DOCKER_FREE}, or with a profile that allows {calls}."
    return f"Whoever started this process put it under a system call filter: let it allow {calls}."


def _process_limit(host: Host, cuda: bool) -> list[str]:
    if host.cgroup.pids_max is not None:
        return [f"The control group bounds all of this service at {host.cgroup.pids_max:,} processes; that must do."]
    return [
        "Without a user namespace the kernel does not count a child's processes on their own. Bound the whole service: "
        f"{_bound(host, 'TasksMax=4096', '--pids-limit 4096')}."
    ]


def _memory_limit(host: Host, cuda: bool) -> list[str]:
    if not cuda:
        return []
    if host.cgroup.memory_max_bytes is not None:
        gib = host.cgroup.memory_max_bytes / 2**30
        return [f"CUDA works under no address-space limit; the control group bounds the service at {gib:.0f} GiB."]
    return [
        "CUDA works under no address-space limit, and nothing else bounds host memory here: "
        f"{_bound(host, 'MemoryMax=90%', '--memory 64g')}."
    ]


def _bound(host: Host, unit: str, flag: str) -> str:
    if host.container in ("docker", "podman"):
        return f"start the container with {flag}"
    if host.container == "kubernetes":
        return "set resources.limits of the pod"
    return f"put {unit} into its systemd unit (Delegate=yes lets us make groups of our own)"


def _kernel(host: Host) -> tuple[int, int]:
    parts = host.kernel.split(".")
    try:
        return int(parts[0]), int(parts[1])
    except (IndexError, ValueError):
        return (0, 0)


_ADVICE: dict[str, Callable[[Host, bool], list[str]]] = {
    "landlock": _landlock,
    "seccomp": _seccomp,
    "namespaces": _namespaces,
    "files": _files,
    "process_limit": _process_limit,
    "memory_limit": _memory_limit,
}


ACTIVE, FAILED, BROKEN = "active", "failed", "BROKEN"
PROTECTS = {
    "landlock": "files: only the toolchain can be read, only the private folder written",
    "seccomp": "system calls: other processes, sockets, kernel interfaces",
    "namespaces": "the machine's network, IPC objects and user ids",
    "files": "files, on the threads of a driver as well: nothing else is in the child's file system",
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
        return self.state == BROKEN or (self.required and bool(missing({self.name: self.claim}, [self.name])))


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
    if not missing({name: claim}, [name]) and any(attempt.result == "through" for attempt in tried):
        state = BROKEN
    advice = [] if state == ACTIVE else advice_for(name, host, cuda=cuda)
    if state == FAILED and not advice:
        advice = [f"The kernel has this layer and a call failed: {claim}. Please report it with this output."]
    if state == BROKEN:
        advice = ["This is a fault of the judge, not of the machine: please report it with this output."]
    return Layer(name, state, claim, PROTECTS[name], required, tried, tuple(advice))


def _tried(attempt: Attempt, probed: Probed) -> Tried:
    how = probed.inside[attempt.name]
    if how == THROUGH:
        return Tried(attempt.label, "through", "")
    if attempt.controlled and probed.outside[attempt.name] != THROUGH:
        return Tried(attempt.label, "moot", how)
    return Tried(attempt.label, "held", how)
