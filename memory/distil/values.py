"""What a distiller is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from memory.prompting.scopes import Scope

ANYWHERE = Scope()


@dataclass(frozen=True)
class Facts:
    """One failure: what the judge said of it, the kernel, and where it ran ("3.7.1", "sm_90"; empty: not known)."""

    verdict: str
    stage: str
    reason: str
    message: str
    source: str = ""
    triton: str = ""
    arch: str = ""
    torch: str = ""

    @property
    def kind(self) -> str:
        return self.reason or self.verdict


@dataclass(frozen=True)
class Lesson:
    """`outcome` is "rule" with a claim, else "nothing" or "unfit" with `why`. `origin`: "pattern" or "model"."""

    outcome: str
    why: str = ""
    claim: str = ""
    pattern: str = ""
    origin: str = "pattern"
    operator: str = ""
    scope: Scope = ANYWHERE
    call: Mapping[str, Any] | None = None  # what asking a model for it has used: tokens_in, tokens_out, usd

    def __post_init__(self) -> None:
        if self.outcome not in ("rule", "nothing", "unfit"):
            raise ValueError(f"unknown outcome {self.outcome!r}")
        if (self.outcome == "rule") != bool(self.claim) or (self.outcome == "rule") == bool(self.why):
            raise ValueError("a rule has a claim, everything else a reason")


class DistilLater(Exception):
    """The model gave no answer. The failure stays for another time; the message says why."""


class Library(Protocol):
    """Knows which names torch and Triton have."""

    def doubt(self, owner: str, name: str, facts: Facts) -> str:
        """Why it is not sure that `owner` ("triton.language") has no `name`; empty when it is.

        Raises DistilLater when that cannot be answered now.
        """
        ...


class NoLibrary:
    """No library to ask: every name is in doubt."""

    def doubt(self, owner: str, name: str, facts: Facts) -> str:
        return "It is not known whether the installed library has that name."


class Distiller(Protocol):
    """Gives each failure its lesson. The same facts give the same lesson; a model may word it differently."""

    def distil(self, facts: Facts) -> Lesson:
        """Raises DistilLater when nothing can be said now."""
        ...
