"""Hostile source text as safe HTML lines: Pygments' classes, every hidden character shown as its code point.

One of the two places that may call `mark_safe`: everything that goes in is escaped here, token by token.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache, lru_cache
from html import escape
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any

from django.utils.safestring import SafeString, mark_safe
from pygments.lexers.python import PythonLexer
from pygments.token import STANDARD_TYPES, Token, _TokenType

COLOUR_LINES, COLOUR_CHARS = 4_000, 200_000  # above: plain text
SHOW_LINES, SHOW_CHARS = 20_000, 1_000_000  # above: download only

Run = tuple[str, str]  # CSS class of a token ("" for none), its text without line ends
Span = tuple[int, int]  # half-open range of columns

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


class _Lexer(PythonLexer):  # type: ignore[misc]
    """PythonLexer, whose time grows with the text alone."""

    tokens = {state: [_linear(rule) for rule in rules] for state, rules in PythonLexer.tokens.items()}


_LEXER = _Lexer(stripnl=False, ensurenl=False)


@dataclass(frozen=True)
class Listing:
    """A source ready to print: one safe HTML string per line, or none when it is `too_large`."""

    lines: tuple[SafeString, ...]
    total_lines: int
    hidden_lines: tuple[int, ...]  # numbers of lines that hold bidirectional, invisible or control characters
    too_large: bool = False
    plain: bool = False  # shown without colours because of its size


def listing(source: str) -> Listing:
    """Highlight Python source. Never raises on odd text; large text loses its colours first, then its body."""
    source = uniform(source)
    total = source.count("\n") + 1 if source else 0
    if total > SHOW_LINES or len(source) > SHOW_CHARS:
        return Listing((), total, (), too_large=True)
    rows = token_lines(source)
    return Listing(
        lines=tuple(render(row) for row in rows),
        total_lines=len(rows),
        hidden_lines=hidden_lines(source),
        plain=not colourable(source),
    )


def uniform(source: str) -> str:
    """Line ends as one newline, none at the very end."""
    text = source.replace("\r\n", "\n").replace("\r", "\n")
    return text.removesuffix("\n")


def colourable(source: str) -> bool:
    """Whether the text is small enough to run through Pygments in a request."""
    return len(source) <= COLOUR_CHARS and source.count("\n") < COLOUR_LINES


@lru_cache(maxsize=64)
def token_lines(source: str) -> tuple[tuple[Run, ...], ...]:
    """Tokens of each line, in order. Joining a line's texts gives the line back."""
    if not source:
        return ()
    if not colourable(source):
        return tuple((("", line),) for line in source.split("\n"))
    return runs_by_line(source)


def runs_by_line(source: str) -> tuple[tuple[Run, ...], ...]:
    """What Pygments says of each line, in order; neighbours of one class are one run."""
    rows: list[list[Run]] = [[]]
    for _, kind, text in _LEXER.get_tokens_unprocessed(source):
        style = css_class(kind)
        first, *others = text.split("\n")
        rows[-1].append((style, first))
        rows += ([(style, piece)] for piece in others)
    return tuple(tuple(_joined(row)) for row in rows)


def _joined(row: Iterable[Run]) -> Iterator[Run]:
    """Joined once, since adding piece by piece copies the line each time."""
    for style, runs in groupby((run for run in row if run[1]), key=itemgetter(0)):
        yield style, "".join(text for _, text in runs)


@cache
def css_class(kind: _TokenType) -> str:
    """Pygments' short class of a token type; plain text and whitespace have none."""
    while kind not in STANDARD_TYPES:
        kind = kind.parent
    if kind in {Token.Text, Token.Text.Whitespace, Token.Name, Token.Punctuation, Token.Error}:
        return ""
    return str(STANDARD_TYPES[kind])


def render(runs: Iterable[Run], marked: tuple[Span, ...] = ()) -> SafeString:
    """One line as HTML. Columns inside `marked` are wrapped in <mark>."""
    parts: list[str] = []
    for style, text, is_marked in _cut(runs, marked) if marked else ((*run, False) for run in runs):
        body = escape(text) if _plain(text) else "".join(_shown(char) for char in text)
        if is_marked:
            body = f"<mark>{body}</mark>"
        parts.append(f'<span class="{style}">{body}</span>' if style else body)
    return mark_safe("".join(parts))


def _cut(runs: Iterable[Run], marked: tuple[Span, ...]) -> Iterator[tuple[str, str, bool]]:
    edges = sorted({edge for span in marked for edge in span})
    column = 0
    for style, text in runs:
        cuts = [0, *(edge - column for edge in edges if column < edge < column + len(text)), len(text)]
        for start, end in pairwise(cuts):
            at = column + start
            yield style, text[start:end], any(low <= at < high for low, high in marked)
        column += len(text)


def _plain(text: str) -> bool:
    """Whether nothing in it is hidden; most pieces of most sources are."""
    return text.isascii() and text.replace("\t", " ").isprintable()


def _shown(char: str) -> str:
    if is_hidden(char):
        return f'<span class="hidden-char">U+{ord(char):04X}</span>'
    return escape(char)


def is_hidden(char: str) -> bool:
    """Bidirectional marks, zero-width and control characters, private use, and blanks that only look like a space."""
    if char in " \t\n" or "!" <= char <= "~":
        return False
    return unicodedata.category(char) in {"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp", "Zs"}


def hidden_lines(source: str) -> tuple[int, ...]:
    """Numbers (from 1) of the lines with hidden characters."""
    if source.isascii() and source.isprintable():
        return ()
    return tuple(n for n, line in enumerate(source.split("\n"), 1) if any(map(is_hidden, line)))


def visible(text: str) -> str:
    """Plain text (logs, replies) with every hidden character as `\\uXXXX`; tabs and line ends stay."""
    return "".join(f"\\u{ord(c):04x}" if is_hidden(c) else c for c in uniform(text))
