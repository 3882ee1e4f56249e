"""What to do about a missing layer on this very machine. Each answer is a list of sentences, best first."""

from __future__ import annotations

from collections.abc import Callable

from judge.bench.sandboxing.calls import ARCHITECTURES
from judge.doctor.host import Host

DOCKER_FREE = "--security-opt seccomp=unconfined --security-opt apparmor=unconfined"
KUBERNETES_FREE = "securityContext.seccompProfile.type: Unconfined, or a Localhost profile that allows"
LANDLOCK_CALLS = "landlock_create_ruleset, landlock_add_rule and landlock_restrict_self"


def advice_for(layer: str, host: Host, *, cuda: bool) -> list[str]:
    """What brings `layer` up on `host`; empty for a layer that nothing but a bug can take away."""
    ask = _ADVICE.get(layer)
    return ask(host, cuda) if ask else []


def _landlock(host: Host, cuda: bool) -> list[str]:
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
    "process_limit": _process_limit,
    "memory_limit": _memory_limit,
}
