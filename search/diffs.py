"""Line differences between two kernels, as rows for a table. Bounded in work: hostile text cannot hang a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from itertools import zip_longest

from django.utils.safestring import SafeString

from judge.highlighting import Run, Span, render, token_lines, uniform

CONTEXT = 3  # unchanged lines kept around a change
MAX_LINES = 4_000  # of either text; above: download only
WORK_LIMIT = 3_000_000  # element comparisons before the aligner gives up
WORD_WORK_LIMIT = 40_000  # the same inside one pair of lines
WORD_MARK_LINES = 200  # changes longer than this get no marks inside their lines

Opcode = tuple[str, int, int, int, int]


@dataclass(frozen=True)
class Side:
    """One cell: line number from 1 and highlighted HTML."""

    number: int
    html: SafeString


@dataclass(frozen=True)
class Block:
    """A stretch of rows. `kind` is equal or change; a row holds None where one side has no line."""

    kind: str
    rows: tuple[tuple[Side | None, Side | None], ...]


@dataclass(frozen=True)
class Hunk:
    """Blocks that belong together; `skipped` unchanged lines stand folded before it."""

    skipped: int
    blocks: tuple[Block, ...]


@dataclass(frozen=True)
class Diff:
    """The whole comparison. `too_large` and `unaligned` say why it is shorter or coarser than usual."""

    hunks: tuple[Hunk, ...] = ()
    added: int = 0
    removed: int = 0
    skipped_after: int = 0
    too_large: bool = False
    unaligned: bool = False  # too repetitive to align: shown as one replacement

    @property
    def same(self) -> bool:
        """True when both texts are equal up to line ends."""
        return not self.hunks and not self.too_large


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


@lru_cache(maxsize=128)
def diff(old: str, new: str) -> Diff:
    """Compare two sources line by line. Cached on both texts."""
    old, new = uniform(old), uniform(new)
    before, after = _lines(old), _lines(new)
    if max(len(before), len(after)) > MAX_LINES:
        return Diff(too_large=True)
    opcodes, unaligned = _opcodes(before, after)
    if all(tag == "equal" for tag, *_ in opcodes):
        return Diff()
    hunks, tail = _hunks(opcodes, token_lines(old), token_lines(new))
    return Diff(
        hunks=tuple(hunks),
        added=sum(j2 - j1 for tag, _, _, j1, j2 in opcodes if tag != "equal"),
        removed=sum(i2 - i1 for tag, i1, i2, _, _ in opcodes if tag != "equal"),
        skipped_after=tail,
        unaligned=unaligned,
    )


def _lines(text: str) -> list[str]:
    return text.split("\n") if text else []


def _opcodes(before: list[str], after: list[str]) -> tuple[list[Opcode], bool]:
    """Aligned opcodes and False; or the middle as one replacement and True when aligning would take too long."""
    shorter = min(len(before), len(after))
    head = next((i for i in range(shorter) if before[i] != after[i]), shorter)
    tail = next((i for i in range(shorter - head) if before[-1 - i] != after[-1 - i]), shorter - head)
    middle_a, middle_b = before[head : len(before) - tail], after[head : len(after) - tail]
    unaligned = False
    try:
        middle = _BoundedMatcher(None, middle_a, middle_b, autojunk=False).get_opcodes()
    except _TooMuchWork:
        middle, unaligned = [("replace", 0, len(middle_a), 0, len(middle_b))], True
    opcodes: list[Opcode] = [("equal", 0, head, 0, head)] if head else []
    opcodes += [(tag, i1 + head, i2 + head, j1 + head, j2 + head) for tag, i1, i2, j1, j2 in middle]
    if tail:
        opcodes.append(("equal", len(before) - tail, len(before), len(after) - tail, len(after)))
    return opcodes, unaligned


Tokens = tuple[tuple[Run, ...], ...]


def _hunks(opcodes: list[Opcode], old: Tokens, new: Tokens) -> tuple[list[Hunk], int]:
    hunks: list[Hunk] = []
    blocks: list[Block] = []
    skipped = pending = 0
    last = len(opcodes) - 1
    for index, (tag, i1, i2, j1, j2) in enumerate(opcodes):
        if tag != "equal":
            blocks.append(Block("change", tuple(_changed_rows(old[i1:i2], new[j1:j2], i1, j1))))
            continue
        before = CONTEXT if index else 0  # lines kept after the previous change
        after = CONTEXT if index < last else 0
        if i2 - i1 <= before + after:
            blocks.append(_equal(old, i1, i2, j1))
            continue
        if before:
            blocks.append(_equal(old, i1, i1 + before, j1))
            hunks.append(Hunk(skipped, tuple(blocks)))
            blocks = []
        pending = i2 - i1 - before - after
        skipped = pending
        if after:
            blocks.append(_equal(old, i2 - after, i2, j2 - after))
    if any(block.kind == "change" for block in blocks):
        hunks.append(Hunk(skipped, tuple(blocks)))
        pending = 0
    return hunks, pending


def _equal(old: Tokens, i1: int, i2: int, j1: int) -> Block:
    rows = []
    for offset in range(i2 - i1):
        html = render(old[i1 + offset])
        rows.append((Side(i1 + offset + 1, html), Side(j1 + offset + 1, html)))
    return Block("equal", tuple(rows))


def _changed_rows(old: Tokens, new: Tokens, i1: int, j1: int) -> Iterator[tuple[Side | None, Side | None]]:
    mark = len(old) + len(new) <= WORD_MARK_LINES
    for offset, (left, right) in enumerate(zip_longest(old, new)):
        marks: tuple[tuple[Span, ...], tuple[Span, ...]] = ((), ())
        if mark and left is not None and right is not None:
            marks = _word_marks("".join(text for _, text in left), "".join(text for _, text in right))
        yield (
            None if left is None else Side(i1 + offset + 1, render(left, marks[0])),
            None if right is None else Side(j1 + offset + 1, render(right, marks[1])),
        )


def _word_marks(left: str, right: str) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
    """Columns that differ, when the two lines are alike enough for that to help the eye."""
    if max(len(left), len(right)) > 300:
        return (), ()
    matcher = _BoundedMatcher(None, left, right, autojunk=False)
    matcher.limit = WORD_WORK_LIMIT
    try:
        if matcher.quick_ratio() < 0.5 or matcher.ratio() < 0.5:
            return (), ()
    except _TooMuchWork:
        return (), ()
    changes = [code for code in matcher.get_opcodes() if code[0] != "equal"]
    return (
        tuple((i1, i2) for _, i1, i2, _, _ in changes if i2 > i1),
        tuple((j1, j2) for _, _, _, j1, j2 in changes if j2 > j1),
    )
