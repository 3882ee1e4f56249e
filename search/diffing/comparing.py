"""Compare two sources line by line, as parts of a table: changes, some lines around each, the rest folded."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import zip_longest

from judge.sources.highlighting import Run, Span, hidden_lines, render, token_lines, uniform
from search.diffing import table
from search.diffing.aligning import Opcode, lines_of, opcodes, without_blanks, word_marks
from search.diffing.table import Cell, Row
from search.diffing.values import CONTEXT, DEMAND, FILE, MOST_CHARS, MOST_LINES, PAGE_LINES, Diff, Options, Part

WORD_MARK_LINES = 200  # changes longer than this get no marks inside their lines
MOST_ROWS = 4_000  # of changes on one page

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
        yield Part("fold", table.NOTHING, lines=i2 - i1, number=self.folds, open=shown)
        if shown:
            yield self._equal(i1, i2, j1)

    def _equal(self, i1: int, i2: int, j1: int) -> Part:
        same = not self.options.ignore_space
        rows: list[Row] = []
        for offset in range(i2 - i1):
            right = render(self.new[j1 + offset])
            left = right if same else render(self.old[i1 + offset])
            rows.append((Cell(i1 + offset + 1, left), Cell(j1 + offset + 1, right)))
        return Part("equal", table.equal(rows, unified=self.options.unified), lines=len(rows))

    def _change(self, i1: int, i2: int, j1: int, j2: int, *, begins: bool) -> Part:
        self.hunks += begins
        room = max(MOST_ROWS - self.rows, 0)
        count = max(i2 - i1, j2 - j1)
        self.cut += max(count - room, 0)
        self.rows += count
        rows = list(
            self._pairs(i1, min(i2, i1 + room), j1, min(j2, j1 + room), mark=i2 - i1 + j2 - j1 <= WORD_MARK_LINES)
        )
        html = table.change(rows, unified=self.options.unified)
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
