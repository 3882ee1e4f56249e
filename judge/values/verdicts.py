"""Every way an evaluation can end, and the words that go with its numbers. Standard library only."""

from __future__ import annotations

from enum import StrEnum

PROTOCOL = "judge/4"


class Verdict(StrEnum):
    """Every way an evaluation can end."""

    PASS = "pass"
    REFUSED_PROBLEM = "refused_problem"
    BAD_SOURCE = "bad_source"
    LOAD_FAILED = "load_failed"
    COMPILE_FAILED = "compile_failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    WRONG_STRUCTURE = "wrong_structure"
    WRONG = "wrong"
    NOT_FINITE = "not_finite"
    UNSTABLE = "unstable"
    STATE_VIOLATION = "state_violation"
    LOWER_PRECISION = "lower_precision"
    DISHONEST = "dishonest"
    SUSPECT = "suspect"
    UNSUPPORTED = "unsupported"
    COMPILED_ONLY = "compiled_only"
    CANCELLED = "cancelled"
    LOST = "lost"


# What a kernel itself is to blame for. The others speak of the problem, of the device, or of the judge.
BLAMING = frozenset(
    {
        Verdict.BAD_SOURCE,
        Verdict.LOAD_FAILED,
        Verdict.COMPILE_FAILED,
        Verdict.CRASHED,
        Verdict.TIMED_OUT,
        Verdict.WRONG_STRUCTURE,
        Verdict.WRONG,
        Verdict.NOT_FINITE,
        Verdict.UNSTABLE,
        Verdict.STATE_VIOLATION,
        Verdict.LOWER_PRECISION,
        Verdict.DISHONEST,
        Verdict.SUSPECT,
    }
)
UNCACHED = frozenset({Verdict.LOST, Verdict.CANCELLED})


class Basis(StrEnum):
    """Where a number comes from. Numbers of different bases are never compared or summed."""

    MEASURED = "measured"  # a GPU, our protocol
    MODELLED = "modelled"  # counted traffic and FLOPs through a time model; shown as MODELLED
    REPORTED = "reported"  # imported: somebody else's figure, no samples


class Subject(StrEnum):
    CANDIDATE = "candidate"
    EAGER = "eager"
    COMPILE = "compile"  # torch.compile, default mode
    AUTOTUNE = "max-autotune"  # torch.compile, mode max-autotune
    INCUMBENT = "incumbent"  # the best kernel so far


class SpeedCall(StrEnum):
    """What a measured ratio says at 1 % indifference."""

    NONE = ""  # not a side-by-side measurement
    FASTER = "faster"  # the whole interval is beyond 1 %
    SLOWER = "slower"
    SAME = "same"  # the whole interval is within 1 %
    AMBIGUOUS = "ambiguous"  # the pairs did not decide it


class JudgeError(Exception):
    """A fault of the judge itself (a child could not start, the runner broke). Never blames the candidate."""
