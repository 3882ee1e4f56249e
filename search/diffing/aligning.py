"""Which lines of two texts belong together, and which words of two lines. Bounded: no text can hang a page."""

from __future__ import annotations

import re
from collections.abc import Sequence
from difflib import SequenceMatcher
from itertools import accumulate

from judge.sources.highlighting import Span

WORK_LIMIT = 3_000_000  # element comparisons before the aligner gives up
WORD_WORK_LIMIT = 40_000  # the same inside one pair of lines
WORD_LINE_CHARS = 1_000
ALIKE = 0.4  # share of words that two lines have in common, for marks inside them
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)

Opcode = tuple[str, int, int, int, int]


class _TooMuchWork(Exception):
    """The aligner met texts that repeat too much."""


class _BoundedMatcher(SequenceMatcher[str]):
    """difflib without its junk heuristic, which drops common lines, but with a budget: its worst case is cubic."""

    a: Sequence[str]
    b2j: dict[str, list[int]]
    work = 0
    limit = WORK_LIMIT

    def find_longest_match(self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None):  # type: ignore[no-untyped-def]
        places = self.b2j
        end = len(self.a) if ahi is None else ahi
        self.work += sum(1 + len(places.get(self.a[index], ())) for index in range(alo, end))
        if self.work > self.limit:
            raise _TooMuchWork
        return super().find_longest_match(alo, ahi, blo, bhi)


def lines_of(text: str) -> list[str]:
    """The lines of a text with uniform line ends; an empty text has none."""
    return text.split("\n") if text else []


def without_blanks(line: str) -> str:
    """What stays of a line where blanks do not count: no indentation, one blank for several."""
    return " ".join(line.split())


def _ends(before: Sequence[str], after: Sequence[str]) -> tuple[int, int]:
    """How many items are equal at the beginning, and how many behind those at the end."""
    shorter = min(len(before), len(after))
    head = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    return head, next((i for i in range(shorter - head) if before[-1 - i] != after[-1 - i]), shorter - head)


def opcodes(before: list[str], after: list[str]) -> tuple[list[Opcode], bool]:
    """Aligned opcodes and False; or the middle as one replacement and True when aligning would take too long."""
    head, tail = _ends(before, after)
    middle_a, middle_b = before[head : len(before) - tail], after[head : len(after) - tail]
    unaligned = False
    try:
        middle = _BoundedMatcher(None, middle_a, middle_b, autojunk=False).get_opcodes()
    except _TooMuchWork:
        middle, unaligned = [("replace", 0, len(middle_a), 0, len(middle_b))], True
    found: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    found += [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in middle]
    if tail:
        found.append(("equal", len(before) - tail, len(before), len(after) - tail, len(after)))
    return found, unaligned


def word_marks(left: str, right: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Columns of the words that differ, when the two lines are alike enough for that to help the eye."""
    if max(len(left), len(right)) > WORD_LINE_CHARS:
        return (), ()
    words = _WORD.findall(left), _WORD.findall(right)
    head, tail = _ends(*words)
    left_middle, right_middle = (side[head : len(side) - tail] for side in words)
    matcher = _BoundedMatcher(None, left_middle, right_middle, autojunk=False)
    matcher.limit = WORD_WORK_LIMIT
    try:
        same = head + tail + sum(size for _, _, size in matcher.get_matching_blocks())
    except _TooMuchWork:
        return (), ()
    if 2 * same < ALIKE * (len(words[0]) + len(words[1])):
        return (), ()
    starts = [[0, *accumulate(map(len, side))][head:] for side in words]
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        tuple((starts[0][i1], starts[0][i2]) for _, i1, i2, _, _ in changes if i2 > i1),
        tuple((starts[1][j1], starts[1][j2]) for _, _, _, j1, j2 in changes if j2 > j1),
    )
