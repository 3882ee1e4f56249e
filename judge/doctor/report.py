"""What the doctor found, as lines and JSON, with warnings and what to do about each finding."""

from __future__ import annotations

import dataclasses
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from judge.bench.sandboxing.calls import ARCHITECTURES
from judge.bench.sandboxing.minimum import gaps, required_layers
from judge.doctor.host import Host, Layer, read_host

WIDTH, COLUMNS = 16, 116


@dataclass(frozen=True)
class Fact:
    """One thing worth knowing. `state` is ok, note (works, but read it) or bad (something will not work)."""

    name: str
    value: str
    state: str = "ok"
    advice: str = ""

    def __post_init__(self) -> None:
        if self.state not in {"ok", "note", "bad"}:
            raise ValueError(f"unknown state {self.state!r}")
        if self.state == "bad" and not self.advice:
            raise ValueError("a bad fact says what to do about it")


@dataclass(frozen=True)
class DeviceReport:
    """One device; `fault` is set when its bench does not start, and nothing else is known then."""

    device: str
    fault: str = ""
    layers: tuple[Layer, ...] = ()
    facts: tuple[Fact, ...] = ()

    @property
    def healthy(self) -> bool:
        return not self.fault and not any(layer.fails for layer in self.layers)


@dataclass(frozen=True)
class Report:
    """The whole machine. `required` are the layers that JUDGE_MIN_SANDBOX demands."""

    required: tuple[str, ...]
    machine: tuple[Fact, ...]
    devices: tuple[DeviceReport, ...]

    @property
    def healthy(self) -> bool:
        return all(device.healthy for device in self.devices)

    def to_json(self) -> dict[str, Any]:
        """Plain JSON types, with `healthy` on top and `fails` with every layer."""
        plain = dataclasses.asdict(self)
        for row, device in zip(plain["devices"], self.devices, strict=True):
            row["healthy"] = device.healthy
            for entry, layer in zip(row["layers"], device.layers, strict=True):
                entry["fails"] = layer.fails
        return {"healthy": self.healthy, **plain}

    def lines(self) -> Iterator[str]:
        """For a terminal."""
        yield "machine"
        for fact in self.machine:
            yield from _fact_lines(fact)
        for device in self.devices:
            yield ""
            yield f"device {device.device}"
            if device.fault:
                yield f"  FAULT        {device.fault}"
            for layer in device.layers:
                yield from _layer_lines(layer)
            for fact in device.facts:
                yield from _fact_lines(fact)
        yield ""
        yield self.conclusion()

    def conclusion(self) -> str:
        """One sentence: may this machine judge uploaded code?"""
        if not self.devices:
            return "No device was examined."
        wanted = ", ".join(self.required) or "nothing"
        if self.healthy:
            return f"Every layer that JUDGE_MIN_SANDBOX asks for ({wanted}) is active and held."
        wrong = []
        for device in self.devices:
            names = [f"{layer.name} ({layer.state})" for layer in device.layers if layer.fails]
            if names or device.fault:
                wrong.append(f"{device.device}: {', '.join(names) or 'the bench does not start'}")
        return f"Not fit to judge uploaded code with JUDGE_MIN_SANDBOX asking for {wanted}. {'; '.join(wrong)}."


def _fact_lines(fact: Fact) -> Iterator[str]:
    mark = {"ok": "", "note": "note", "bad": "BAD"}[fact.state]
    yield f"  {mark:12} {fact.name:{WIDTH}} {fact.value}".rstrip()
    if fact.advice:
        yield from _below(f"-> {fact.advice}")


def _layer_lines(layer: Layer) -> Iterator[str]:
    needed = " (required)" if layer.required else ""
    yield f"  {layer.state:12} {layer.name:{WIDTH}} {layer.protects}{needed}"
    for words, rows in _grouped(layer):
        yield from _below(f"{words}: {rows}")
    for sentence in layer.advice:
        yield from _below(f"-> {sentence}")


def _below(text: str) -> Iterator[str]:
    """`text` in the last column, over as many lines as it takes."""
    margin = " " * (WIDTH + 16)
    yield from textwrap.wrap(
        text, COLUMNS, initial_indent=margin, subsequent_indent=f"{margin}  ", break_on_hyphens=False
    )


def _grouped(layer: Layer) -> Iterator[tuple[str, str]]:
    titles = {"through": "GOT THROUGH", "held": "stopped", "moot": "refused here to everybody"}
    for result, title in titles.items():
        rows = [
            f"{tried.words}{f' ({tried.how})' if tried.how else ''}" for tried in layer.tried if tried.result == result
        ]
        if rows:
            yield title, "; ".join(rows)


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


OPEN = {
    "landlock": "uploaded code is bounded, but could read and write files of this account",
    "seccomp": "uploaded code could reach other processes and kernel interfaces of this account",
}


def warnings(minimum: str, *, missing: tuple[str, ...] | None = None, host: Host | None = None) -> list[str]:
    """Lines about strong layers that are missing; `minimum` is JUDGE_MIN_SANDBOX. Empty on a machine that has both."""
    missing = gaps() if missing is None else missing
    if not missing:
        return []
    host = host or read_host()
    refused = required_layers(minimum)
    lines = []
    for layer in missing:
        what = "nothing uploaded will run, as JUDGE_MIN_SANDBOX asks for it" if layer in refused else OPEN[layer]
        lines.append(f"WARNING: no {layer} on this machine: {what}.")
        lines += [f"  -> {sentence}" for sentence in advice_for(layer, host, cuda=False)]
    if not refused.issuperset(missing):
        lines.append(f"  Upload only what you trust, or insist with JUDGE_MIN_SANDBOX=auto,{','.join(missing)}.")
    return [*lines, "  manage.py judge_doctor tries every layer and explains."]
