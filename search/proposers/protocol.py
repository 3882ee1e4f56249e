"""The one protocol of all proposers, as frozen values. No Django, no torch."""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Protocol

from judge.values import Gradients
from memory.prompting.assignment import PromptRule


@dataclass(frozen=True)
class ContextKernel:
    """A kernel shown to the proposer: an earlier node with its verdict in words and, if it passed, its speedup."""

    number: int
    source: str
    verdict: str
    message: str = ""
    speedup: float | None = None
    basis: str = ""
    evidence: str = ""  # interval, n and the speedups over other baselines, in words


@dataclass(frozen=True)
class Task:
    """What a proposer is asked for.

    `kind` is "large" (a whole module, given context kernels from a pool) or "small" (patch `base`, given a window of
    context kernels, the last of which is the base). `graph` is `OpGraph.to_json()` or None when tracing failed. `seed`
    is an integer that depends only on (run seed, node number): a deterministic proposer uses nothing else at random.
    `device` holds plain facts (kind, title, arch, triton version). `notes` are lines a person added.
    `rules` were learned from earlier failures, the most useful first; those withheld from this step are not in it.
    """

    kind: str
    problem_title: str
    problem_source: str
    graph: dict[str, Any] | None
    device: dict[str, Any]
    context_kernels: tuple[ContextKernel, ...]
    seed: int
    number: int
    base: str | None = None
    notes: tuple[str, ...] = ()
    rules: tuple[PromptRule, ...] = ()
    options: dict[str, Any] = field(default_factory=dict)  # Run.proposer_options
    gradients: Gradients = Gradients.NONE  # of what the problem asks gradients

    def __post_init__(self) -> None:
        if self.kind not in {"large", "small"}:
            raise ValueError(f"unknown step kind {self.kind!r}")
        if self.kind == "small" and not self.base:
            raise ValueError("a small step needs the kernel it improves")


@dataclass(frozen=True)
class Call:
    """One exchange with a proposer, as recorded in a Proposal row."""

    prompt: str = ""
    reply: str = ""
    error: str = ""
    model: str = ""
    template: str = ""
    tokens_in: int | None = None
    tokens_out: int | None = None
    price_usd: Decimal | None = None
    latency_ms: float = 0.0


@dataclass(frozen=True)
class Reply:
    """What came of a task: a source to judge, or a reason why there is none (the node then completes with reward 0)."""

    source: str = ""
    summary: str = ""  # one line: what was tried
    reason: str = ""  # "proposal.no_code", "proposal.patch_mismatch", "proposal.unchanged", ...
    message: str = ""
    calls: tuple[Call, ...] = ()

    def __post_init__(self) -> None:
        if bool(self.source) == bool(self.reason):
            raise ValueError("a reply has either a source or a reason")


class ProposerError(Exception):
    """The proposer's own fault (endpoint down, key refused). `permanent` faults end the run; others are retried.

    The message is shown to people and never holds a key. `calls` are recorded all the same.
    """

    def __init__(self, message: str, *, permanent: bool, calls: tuple[Call, ...] = ()) -> None:
        super().__init__(message)
        self.permanent = permanent
        self.calls = calls


class WaitingForPerson(Exception):
    """The manual proposer has put its prompt on the page; the node waits without a lease until someone answers."""

    def __init__(self, call: Call) -> None:
        super().__init__("waiting for a reply by hand")
        self.call = call


class Proposer(Protocol):
    """Implementations hold configuration only; every call is independent and may run in any process."""

    name: str

    def propose(self, task: Task) -> Reply:
        """One reply for one task. Raises ProposerError or WaitingForPerson."""
        ...
