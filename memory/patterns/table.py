"""The table of known errors, and which of them a failure is."""

from __future__ import annotations

from functools import lru_cache

from memory.patterns import answers, blocks, host, launching, machine, names, pointers, syntax
from memory.patterns.messages import cause_of
from memory.patterns.values import Match, Pattern

# The first that fits counts: a file stands before one whose words are more general.
PATTERNS: tuple[Pattern, ...] = (
    *names.PATTERNS[:-3],
    *syntax.PATTERNS,
    *blocks.PATTERNS,
    *pointers.PATTERNS,
    *launching.PATTERNS,
    *names.PATTERNS[-3:],
    *machine.PATTERNS,
    *answers.PATTERNS,
    *host.PATTERNS,
)
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


def title_of(code: str) -> str:
    """What people call a pattern; empty for a code that the table does not have (any more)."""
    pattern = BY_CODE.get(code)
    return pattern.title if pattern is not None else ""
