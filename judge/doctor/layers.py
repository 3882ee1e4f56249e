"""Each sandbox layer as a probe found it: what it protects, whether it held, what to do if not."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from judge.bench.probing.attempts import ATTEMPTS, THROUGH, Attempt
from judge.doctor.advice import advice_for
from judge.doctor.host import Host
from judge.doctor.probing import Probed

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
