"""Python source as coloured runs by line. A line that was read before is not read again: related kernels share most.

Pygments tries some thirty patterns at every token, which is nearly all that a difference costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any

from pygments.lexer import ExtendedRegexLexer, LexerContext
from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES, Token, _TokenType

Run = tuple[str, str]  # CSS class of a token ("" for none), its text without line ends
Row = list[Run]

MOST_LINES, LONGEST_LINE = 8_000, 400  # kept: some megabytes
ROOT = ["root"]


# Pieces of Pygments' patterns that scan the rest of a text again and again, and the same bounded or without retries.
_LINEAR = (
    (r"^(\s*)(", r"^([^\S\n]*)("),  # of blank lines before a docstring
    (r"\[[^\]]+\]", r"\[[^\]\n]{1,100}\]"),  # an index in a replacement field that is never closed
    (r"N\{.*?\}", r"N\{[^}\n]{0,100}\}"),  # a character's name that is never closed; the longest has 83 letters
    (r"[-#0 +]*([0-9]+|[*])?(\.([0-9]+|[*]))?", r"[-#0 +]*+([0-9]++|[*])?(\.([0-9]++|[*]))?"),  # "%0000..."
    (r"(\s+)([^\n_]*)(_\b)", r"(\s++)([^\n_]*+)(_\b)"),  # "match" and blanks
)


def _linear(rule: Any) -> Any:
    """A rule of Pygments with its pattern in linear form."""
    if not isinstance(rule, tuple) or not isinstance(rule[0], str):
        return rule
    pattern = rule[0]
    for slow, quick in _LINEAR:
        pattern = pattern.replace(slow, quick)
    return (pattern, *rule[1:])


class _Lexer(ExtendedRegexLexer, PythonLexer):  # type: ignore[misc]
    """PythonLexer that tells the state in which it stands, and whose time grows with the text alone."""

    tokens = {state: [_linear(rule) for rule in rules] for state, rules in PythonLexer.tokens.items()}


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
            self.rows[line] = tuple(_joined(runs))


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
        return tuple(tuple(_joined(row)) for row in self.rows)

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
                self.rows[-1].append((style, piece))


def _tokens(context: LexerContext) -> Iterator[tuple[int, _TokenType, str]]:
    return _LEXER.get_tokens_unprocessed(context=context)  # type: ignore[no-any-return]


def _joined(row: Row) -> Iterator[Run]:
    """Neighbours of one class as one run; joined once, since adding piece by piece copies the line each time."""
    for style, runs in groupby(row, key=itemgetter(0)):
        yield style, "".join(text for _, text in runs)


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
