"""What the judge is asked: problem, policy, candidate, limits. Standard library only."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import Any

from judge.values.hashes import text_hash
from judge.values.policy import DEFAULT_POLICY, Policy


@dataclass(frozen=True)
class Limits:
    """Bounds of one child process."""

    wall_s: float = 60.0  # whole evaluation
    stage_s: float = 30.0  # any single stage (import, one forward, ...)
    memory_mb: int = 4096  # address space beyond the preloaded parent; CPU devices only
    output_bytes: int = 64 * 1024  # kept candidate stdout+stderr
    source_bytes: int = 1 << 20

    def __post_init__(self) -> None:
        if min(self.wall_s, self.stage_s) <= 0 or self.memory_mb < 256:
            raise ValueError("limits must be positive, memory at least 256 MiB")


@dataclass(frozen=True)
class SealedCase:
    """Module constants that no proposer sees. Failing a declared one is `wrong`; a derived one only labels."""

    name: str
    constants: dict[str, Any]
    derived: bool = False  # made by the linter, not given by a person


@dataclass(frozen=True)
class ProblemSpec:
    """A problem as the bench sees it. `case` is the name from get_cases() to time; None means the plain constants."""

    source: str
    case: str | None = None
    policy: Policy = DEFAULT_POLICY
    sealed: tuple[SealedCase, ...] = field(default=(), repr=False)  # never in a log

    @property
    def hash(self) -> str:
        """sha256 of source and policy; of the source alone where the policy is the default."""
        demands = self.policy.to_json()
        if not demands:
            return text_hash(self.source)
        return hashlib.sha256(f"{text_hash(self.source)}{json.dumps(demands, sort_keys=True)}".encode()).hexdigest()


@dataclass(frozen=True)
class Job:
    """One evaluation to do. Content and order come from the referee's own entropy.

    `beat` is the speedup over eager that would make the candidate the best: above it, it is audited and measured again
    in fresh processes. None audits every pass; infinity audits none. `incumbent` is the source of the best so far,
    measured side by side with the candidate. `autotune` has torch.compile's max-autotune timed, once a problem, when a
    candidate becomes the best: it takes a minute or more.
    """

    id: str
    problem: ProblemSpec
    candidate: str
    limits: Limits = Limits()
    timing: bool = True
    beat: float | None = None
    incumbent: str | None = field(default=None, repr=False)
    autotune: bool = False
