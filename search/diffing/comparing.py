"""Compare two sources line by line, as parts of a table: changes, some lines around each, the rest folded."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from itertools import accumulate, zip_longest

from django.utils.safestring import SafeString, mark_safe

from judge.sources.highlighting import Run, Span, hidden_lines, render, token_lines, uniform

PAGE_LINES = 2_000  # of either text; above: on demand
MOST_LINES, MOST_CHARS = 20_000, 1_000_000  # of either text; above: download only
CONTEXT = 3  # unchanged lines kept around a change

PAGE, DEMAND, FILE, SLOW = "", "demand", "file", "slow"  # Diff.too_large
ASIDE_LINES = 400  # of either text; above: in a process of its own, so that pages of others do not wait
ASIDE_S = 5.0
WORK_LIMIT = 3_000_000  # element comparisons before the aligner gives up
WORD_WORK_LIMIT = 40_000  # the same inside one pair of lines
WORD_LINE_CHARS = 1_000
ALIKE = 0.4  # share of words that two lines have in common, for marks inside them
_WORD = re.compile(r"\w+|\s+|.", re.DOTALL)
NOTHING = SafeString("")
_VOID = '<td class="ln {0} void"></td><td class="lc {0} void"></td>'
WORD_MARK_LINES = 200  # changes longer than this get no marks inside their lines
MOST_ROWS = 4_000  # of changes on one page


@dataclass(frozen=True)
class Options:
    """How to compare and to show. `opened` holds numbers of folds, `whole` opens all; `large` was asked for."""

    unified: bool = False
    ignore_space: bool = False
    opened: frozenset[int] = frozenset()
    whole: bool = False
    large: bool = False
    plain: bool = False  # no Python: shown without colours


@dataclass(frozen=True)
class Part:
    """A stretch of the table. `kind` is equal, change or fold.

    `html` holds its rows. A fold has a `number` from 1 and says whether it is `open`; `hunk` is set where one begins.
    """

    kind: str
    html: SafeString
    lines: int = 0
    number: int = 0
    open: bool = False
    hunk: int = 0


@dataclass(frozen=True)
class Diff:
    """The whole comparison. `too_large` and `unaligned` say why it is shorter or coarser than usual."""

    parts: tuple[Part, ...] = ()
    added: int = 0
    removed: int = 0
    lines: int = 0  # of the longer text
    too_large: str = PAGE
    unaligned: bool = False  # too repetitive to align: shown as one replacement
    cut: int = 0  # changed rows that are left out, because no page bears more
    hidden: tuple[int, ...] = ()  # lines of the new text with bidirectional, invisible or control characters
    hidden_old: tuple[int, ...] = ()
    options: Options = field(default_factory=Options)

    @property
    def same(self) -> bool:
        """True when both texts are equal up to line ends, or up to blanks where those do not count."""
        return not self.added and not self.removed and not self.too_large

    @property
    def hunks(self) -> int:
        """How many places differ."""
        return sum(1 for part in self.parts if part.hunk)

    @property
    def folds(self) -> int:
        """How many stretches of equal lines are folded, or were before they were opened."""
        return sum(1 for part in self.parts if part.kind == "fold")


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


@dataclass(frozen=True)
class Cell:
    """One line of one text: its number from 1 and its highlighted, escaped HTML."""

    number: int
    html: SafeString


Row = tuple[Cell | None, Cell | None]


def equal(rows: Sequence[Row], *, unified: bool) -> SafeString:
    """Rows of lines that both texts have."""
    if not unified:
        return _joined(_split(row) for row in rows)
    return _joined(_line(old.number, new.number, new.html) for old, new in rows if old is not None and new is not None)


def change(rows: Sequence[Row], *, unified: bool) -> SafeString:
    """Rows of lines that differ; unified: first all old lines, then all new ones."""
    if not unified:
        return _joined(_split(row) for row in rows)
    gone = (_line(old.number, None, old.html, "old") for old, _ in rows if old is not None)
    come = (_line(None, new.number, new.html, "new") for _, new in rows if new is not None)
    return _joined([*gone, *come])


def _split(row: Row) -> str:
    return f"<tr>{_side(row[0], 'old')}{_side(row[1], 'new')}</tr>"


def _side(cell: Cell | None, side: str) -> str:
    if cell is None:
        return _VOID.format(side)
    return f'<td class="ln {side}" data-n="{cell.number}"></td><td class="lc {side}">{cell.html}</td>'


def _line(old: int | None, new: int | None, html: SafeString, side: str = "both") -> str:
    numbers = "".join(
        '<td class="ln"></td>' if number is None else f'<td class="ln" data-n="{number}"></td>' for number in (old, new)
    )
    return f'<tr>{numbers}<td class="lc {side}">{html}</td></tr>'


def _joined(rows: Iterable[str]) -> SafeString:
    return mark_safe("".join(rows))


Tokens = tuple[tuple[Run, ...], ...]


def too_long(old: str, new: str, options: Options) -> Diff | None:
    """What is said instead of a difference that no page bears, or none without being asked; None where one does."""
    if max(len(old), len(new)) > MOST_CHARS:
        return Diff(lines=longest(old, new), too_large=FILE, options=options)
    lines = longest(uniform(old), uniform(new))
    if lines > MOST_LINES or (lines > PAGE_LINES and not options.large):
        return Diff(lines=lines, too_large=FILE if lines > MOST_LINES else DEMAND, options=options)
    return None


def longest(old: str, new: str) -> int:
    """Lines of the longer text."""
    return max(text.count("\n") + 1 if text else 0 for text in (old, new))


def compare(old: str, new: str, options: Options | None = None) -> Diff:
    """The difference from `old` to `new`. What is too long for a page says so instead."""
    options = options or Options()
    longer = too_long(old, new, options)
    if longer is not None:
        return longer
    old, new = uniform(old), uniform(new)
    before, after = lines_of(old), lines_of(new)
    lines = max(len(before), len(after))
    if options.ignore_space:
        codes, unaligned = opcodes([without_blanks(line) for line in before], [without_blanks(line) for line in after])
    else:
        codes, unaligned = opcodes(before, after)
    changes = [code for code in codes if code[0] != "equal"]
    builder = _Builder(_tokens(old, before, options), _tokens(new, after, options), options)
    return Diff(
        parts=tuple(builder.parts(codes)) if changes else (),
        added=sum(j2 - j1 for _, _, _, j1, j2 in changes),
        removed=sum(i2 - i1 for _, i1, i2, _, _ in changes),
        lines=lines,
        unaligned=unaligned,
        cut=builder.cut,
        hidden=hidden_lines(new),
        hidden_old=hidden_lines(old),
        options=options,
    )


def _tokens(text: str, lines: list[str], options: Options) -> Tokens:
    return tuple((("", line),) for line in lines) if options.plain else token_lines(text)


class _Builder:
    """Turns opcodes into parts; `cut` counts the changed rows that no page bears any more."""

    def __init__(self, old: Tokens, new: Tokens, options: Options) -> None:
        self.old, self.new, self.options = old, new, options
        self.folds = self.hunks = self.rows = self.cut = 0

    def parts(self, codes: list[Opcode]) -> Iterator[Part]:
        last = len(codes) - 1
        fresh = True  # whether the next change begins a hunk
        for index, (tag, i1, i2, j1, j2) in enumerate(codes):
            if tag != "equal":
                yield self._change(i1, i2, j1, j2, begins=fresh)
                fresh = False
                continue
            before = CONTEXT if index else 0  # lines kept after the previous change
            after = CONTEXT if index < last else 0
            if i2 - i1 <= before + after + 1:  # a fold of one line would save nothing
                yield self._equal(i1, i2, j1)
                continue
            if before:
                yield self._equal(i1, i1 + before, j1)
            yield from self._fold(i1 + before, i2 - after, j1 + before)
            if after:
                yield self._equal(i2 - after, i2, j2 - after)
            fresh = True

    def _fold(self, i1: int, i2: int, j1: int) -> Iterator[Part]:
        self.folds += 1
        shown = self.options.whole or self.folds in self.options.opened
        yield Part("fold", NOTHING, lines=i2 - i1, number=self.folds, open=shown)
        if shown:
            yield self._equal(i1, i2, j1)

    def _equal(self, i1: int, i2: int, j1: int) -> Part:
        same = not self.options.ignore_space
        rows: list[Row] = []
        for offset in range(i2 - i1):
            right = render(self.new[j1 + offset])
            left = right if same else render(self.old[i1 + offset])
            rows.append((Cell(i1 + offset + 1, left), Cell(j1 + offset + 1, right)))
        return Part("equal", equal(rows, unified=self.options.unified), lines=len(rows))

    def _change(self, i1: int, i2: int, j1: int, j2: int, *, begins: bool) -> Part:
        self.hunks += begins
        room = max(MOST_ROWS - self.rows, 0)
        count = max(i2 - i1, j2 - j1)
        self.cut += max(count - room, 0)
        self.rows += count
        rows = list(
            self._pairs(i1, min(i2, i1 + room), j1, min(j2, j1 + room), mark=i2 - i1 + j2 - j1 <= WORD_MARK_LINES)
        )
        html = change(rows, unified=self.options.unified)
        return Part("change", html, lines=count, hunk=self.hunks if begins else 0)

    def _pairs(self, i1: int, i2: int, j1: int, j2: int, *, mark: bool) -> Iterator[Row]:
        for offset, (left, right) in enumerate(zip_longest(self.old[i1:i2], self.new[j1:j2])):
            marks: tuple[tuple[Span, ...], tuple[Span, ...]] = ((), ())
            if mark and left is not None and right is not None:
                marks = word_marks("".join(text for _, text in left), "".join(text for _, text in right))
            yield (
                None if left is None else Cell(i1 + offset + 1, render(left, marks[0])),
                None if right is None else Cell(j1 + offset + 1, render(right, marks[1])),
            )
