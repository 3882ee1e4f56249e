"""The table of known errors, and which of them a failure is."""

from __future__ import annotations

from functools import lru_cache

from memory.patterns.known import Match, Pattern
from memory.patterns.language import NAMES, SYNTAX, UNDEFINED
from memory.patterns.messages import cause_of
from memory.patterns.operands import BLOCKS, LAUNCHING, POINTERS
from memory.patterns.outcomes import ANSWERS, HOST, MACHINE

# The first that fits counts: a file stands before one whose words are more general.
PATTERNS: tuple[Pattern, ...] = (*NAMES, *SYNTAX, *BLOCKS, *POINTERS, *LAUNCHING, *UNDEFINED, *MACHINE, *ANSWERS, *HOST)
OF_REPLIES = "proposal."  # how reason codes begin where there was no kernel to judge
BY_CODE = {pattern.code: pattern for pattern in PATTERNS}
if len(BY_CODE) != len(PATTERNS):
    raise ValueError("two patterns have one code")


@lru_cache(maxsize=4096)
def recognised(kind: str, cause: str) -> Match | None:
    """The known error of this reason code and cause (memory.patterns.messages.cause_of), None for an unknown one.

    What was said of a reply quotes the reply, in whatever words: there the code alone counts.
    """
    said = "" if kind.startswith(OF_REPLIES) else cause
    for pattern in PATTERNS:
        groups = pattern.groups(kind, said)
        if groups is not None:
            return Match(pattern, groups)
    return None


def match_of(kind: str, message: str) -> Match | None:
    """The known error of a failure by its reason code and whole message."""
    return recognised(kind, cause_of(message))
