"""Python source as coloured runs by line. A line that was read before is not read again: related kernels share most.

Pygments tries some thirty patterns at every token, which is nearly all that a difference costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from pygments.lexer import ExtendedRegexLexer, LexerContext
from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES, Token, _TokenType

Run = tuple[str, str]  # CSS class of a token ("" for none), its text without line ends
Row = list[Run]

MOST_LINES, LONGEST_LINE = 8_000, 400  # kept: some megabytes
ROOT = ["root"]


class _Lexer(ExtendedRegexLexer, PythonLexer):  # type: ignore[misc]
    """PythonLexer that tells the state in which it stands."""


_LEXER = _Lexer(stripnl=False, ensurenl=False)


@dataclass
class LineMemory:
    """Lines that begin and end outside of any string or bracket of the lexer's, with their runs: such a line reads the
    same wherever it stands. Forgets everything when it is full."""

    rows: dict[str, tuple[Run, ...]] = field(default_factory=dict)

    def keep(self, line: str, runs: Row) -> None:
        if len(line) <= LONGEST_LINE:
            if len(self.rows) >= MOST_LINES:
                self.rows.clear()
            self.rows[line] = tuple(runs)


_SEEN = LineMemory()


def forget() -> None:
    """Know no line any more."""
    _SEEN.rows.clear()


def runs_by_line(source: str, seen: LineMemory | None = None) -> tuple[tuple[Run, ...], ...]:
    """The runs of each line, in order. Joining a line's texts gives the line back."""
    return _Reader(source, _SEEN if seen is None else seen).read()


class _Reader:
    """One source on its way: `rows` are the lines up to `pos`, of which the last one may be unfinished."""

    def __init__(self, source: str, seen: LineMemory) -> None:
        self.source, self.seen = source, seen
        self.rows: list[Row] = [[]]
        self.pos = 0
        self.begun: int | None = 0  # where the line began, if outside of everything

    def read(self) -> tuple[tuple[Run, ...], ...]:
        self._known()
        while self.pos < len(self.source):
            context = LexerContext(self.source, self.pos, list(ROOT))
            for at, kind, text in _tokens(context):
                if self._at_line(at, context) and self._known():
                    break  # the lexer goes on behind what was known
                self._take(kind, text)
                self.pos = at + len(text)
            else:
                break
        return tuple(tuple(row) for row in self.rows)

    def _at_line(self, at: int, context: LexerContext) -> bool:
        """Whether a line begins here outside of everything; the one before it is then whole, and is kept."""
        if self.rows[-1] or (at and self.source[at - 1] != "\n") or context.stack != ROOT:
            if at and self.source[at - 1] == "\n":
                self.begun = None
            return False
        if self.begun is not None and at > self.begun and self.source.find("\n", self.begun) == at - 1:
            self.seen.keep(self.source[self.begun : at - 1], self.rows[-2])
        self.begun = at
        return True

    def _known(self) -> bool:
        """Take as many known lines as follow; whether there was one."""
        first = self.pos
        while self.pos < len(self.source):
            end = self.source.find("\n", self.pos)
            line = self.source[self.pos : len(self.source) if end < 0 else end]
            found = self.seen.rows.get(line)
            if found is None:
                break
            self.rows[-1] = list(found)
            if end < 0:
                self.pos = len(self.source)
            else:
                self.rows.append([])
                self.pos = end + 1
        self.begun = self.pos
        return self.pos > first

    def _take(self, kind: _TokenType, text: str) -> None:
        style = css_class(kind)
        for index, piece in enumerate(text.split("\n")):
            if index:
                self.rows.append([])
            if piece:
                _append(self.rows[-1], style, piece)


def _tokens(context: LexerContext) -> Iterator[tuple[int, _TokenType, str]]:
    return _LEXER.get_tokens_unprocessed(context=context)  # type: ignore[no-any-return]


def _append(row: Row, style: str, text: str) -> None:
    if row and row[-1][0] == style:
        text = row.pop()[1] + text
    row.append((style, text))


_CLASSES: dict[_TokenType, str] = {}


def css_class(kind: _TokenType) -> str:
    """Pygments' short class of a token type; plain text and whitespace have none."""
    known = _CLASSES.get(kind)
    if known is None:
        known = _CLASSES[kind] = _class_of(kind)
    return known


def _class_of(kind: _TokenType) -> str:
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    if kind in {Token.Text, Token.Text.Whitespace, Token.Name, Token.Punctuation, Token.Error}:
        return ""
    return str(STANDARD_TYPES[kind])
