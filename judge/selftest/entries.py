"""What one entry of the self-test is: a candidate, the problem it answers, and the verdict it must get.

Standard library only. The files of the corpora are read as text; nothing here imports them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from judge.values import AdmissionReport, Finding, Limits, Outcome, ProblemSpec, SpeedCall, Verdict

BENCHES = frozenset({"interpreter", "cpu", "cuda"})
GAINLESS = "!faster"
LIMITS = Limits(wall_s=60.0, stage_s=20.0)
ADMISSIONS = frozenset({"admitted", "degenerate", "refused"})


class Corpus(StrEnum):
    EXPLOIT = "exploit"  # must be rejected, or labelled, for the right reason
    HONEST = "honest"  # must pass
    MUTATION = "mutation"  # a bug planted in an honest kernel: must be found
    AA = "aa"  # a kernel against itself: must not be called faster


@dataclass(frozen=True)
class Expected:
    """One acceptable ending: a verdict (or an admission state), a prefix of its reason, codes of its findings.

    Empty `reasons` accept any reason. Each of `findings` must be a prefix of the code of at least one finding.
    """

    verdict: str
    reasons: tuple[str, ...] = ()
    findings: tuple[str, ...] = ()
    gainless: bool = False  # and not called faster than eager

    def __post_init__(self) -> None:
        if self.verdict not in ADMISSIONS and self.verdict not in set(Verdict):
            raise ValueError(f"{self.verdict!r} is neither a verdict nor the state of an admission")

    def matches(self, verdict: str, reason: str, findings: tuple[Finding, ...] = (), *, faster: bool = False) -> bool:
        """Whether an ending is this one; `faster`: it was called faster than eager."""
        codes = [finding.code for finding in findings]
        return (
            verdict == self.verdict
            and not (self.gainless and faster)
            and (not self.reasons or reason.startswith(self.reasons))
            and all(any(code.startswith(wanted) for code in codes) for wanted in self.findings)
        )

    def __str__(self) -> str:
        words = [self.verdict, *(f"{reason}*" if reason.endswith(".") else reason for reason in self.reasons)]
        gainless = [GAINLESS] if self.gainless else []
        return " ".join([*words, *(f"+{code}" for code in self.findings), *gainless])


@dataclass(frozen=True)
class Entry:
    """One thing to judge. `expected` maps a kind of bench to the acceptable endings; "" is for every other kind."""

    corpus: Corpus
    id: str  # its file's name: "e03_late_thread"
    title: str
    problem: ProblemSpec = field(repr=False)
    candidate: str = field(repr=False)
    benches: frozenset[str]  # kinds of bench it can run on
    expected: Mapping[str, tuple[Expected, ...]]
    number: int | None = None  # in the catalogue of exploits
    admits: bool = False  # the problem alone is examined; the candidate is what a cheat would send
    incumbent: str | None = field(default=None, repr=False)
    comparisons: int = 1  # A/A: how often it meets its twin
    repeat: int = 1  # evaluations in a row on one bench; the last one counts
    timing: bool = True
    audit: bool = True  # judged as if it were to become the best
    quick: bool = False  # part of the short run
    limits: Limits = LIMITS

    def __post_init__(self) -> None:
        if not self.benches or not self.benches <= BENCHES:
            raise ValueError(f"{self.id}: devices are some of {', '.join(sorted(BENCHES))}")
        if not self.expected or not all(self.expected.values()) or not set(self.expected) <= BENCHES | {""}:
            raise ValueError(f"{self.id}: says not what is expected, or of an unknown kind of device")
        if min(self.comparisons, self.repeat) < 1:
            raise ValueError(f"{self.id}: comparisons and repeat count from one")

    def endings(self, bench: str) -> tuple[Expected, ...]:
        """Acceptable endings on a kind of bench."""
        return self.expected.get(bench) or self.expected[""]

    def fits(self, bench: str, ended: Outcome | AdmissionReport) -> bool:
        """Whether this is what must happen."""
        if isinstance(ended, AdmissionReport):
            return any(one.matches(ended.state, ended.reason) for one in self.endings(bench))
        faster = ended.speedup is not None and ended.speedup.call is SpeedCall.FASTER
        return any(
            one.matches(ended.verdict, ended.reason, ended.findings, faster=faster) for one in self.endings(bench)
        )
