"""The one text of a source that is hashed, checked and loaded, and its hashes. Standard library only.

What a program can read of itself at run time (docstrings, line numbers, its file) it reads of this text; so whatever
can change what a program does is in the hash, and what is not in the hash is not in the text that runs.
"""

from __future__ import annotations

import ast
import hashlib
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache

from judge.values.parsing import parsed

MOST_CHARS = 1 << 20  # of a text that is shortened; a longer one stands for itself
_COOKIE = re.compile(r"[ \t]*#.*?coding[:=][ \t]*([-\w.]+)", re.ASCII)  # PEP 263
_UTF_8 = re.compile(r"utf[-_]?8", re.IGNORECASE)
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")
_LEFT_OUT = frozenset({tokenize.NL, tokenize.COMMENT})
_DOCSTRING = frozenset({tokenize.STRING, tokenize.NEWLINE, *_LEFT_OUT})
_PLACELESS = frozenset({tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})
_PLACE = re.compile(r'(candidate\.py(?:", line |:))(\d+)')


@dataclass(frozen=True)
class BadText:
    """Why a text is no Python source in UTF-8, and its 1-based line. `binary`: it is no text at all."""

    message: str
    line: int
    binary: bool = False


def uniform_text(source: str) -> str:
    """`source` without a byte order mark, lines ending in a line feed alone."""
    return source.lstrip("\ufeff").replace("\r\n", "\n").replace("\r", "\n")


def bad_text(source: str) -> BadText | None:
    """Why `source` would be read otherwise elsewhere, with what to change; None for one that reads the same."""
    text = uniform_text(source)
    surrogate = next((number for number, char in enumerate(text) if "\ud800" <= char <= "\udfff"), -1)
    undecoded = text.find("\ufffd", 0, 4096)
    if surrogate >= 0 or undecoded >= 0 or "\x00" in text:
        place = max(surrogate, undecoded, text.find("\x00"))
        return BadText("this is not UTF-8 text; send a Python source file", _line(text, place), binary=True)
    control = _CONTROL.search(text)
    if control is not None:
        char = ord(control[0])
        message = (
            f"the control character U+{char:04X} is not allowed; write it as \\x{char:02x} in a string, or remove it"
        )
        return BadText(message, _line(text, control.start()))
    for number, line in enumerate(text.split("\n", 2)[:2], start=1):
        cookie = _COOKIE.match(line)
        if cookie is not None and not _UTF_8.fullmatch(cookie[1]):
            message = (
                f"line {number} declares the encoding {cookie[1][:40]!r}; sources are UTF-8: remove the declaration"
            )
            return BadText(message, number)
        if line.strip() and not line.lstrip().startswith("#"):
            break  # a declaration stands above all code
    return None


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1


@dataclass(frozen=True)
class CanonicalText:
    """A candidate as it is hashed, checked and loaded. `lines`: for each of its lines, the line of the source."""

    text: str
    lines: tuple[int, ...]

    def in_source(self, message: str) -> str:
        """`message` with places in candidate.py as lines of the source."""
        return _PLACE.sub(lambda found: found[1] + str(self._line(int(found[2]))), message)

    def _line(self, number: int) -> int:
        return self.lines[number - 1] if 0 < number <= len(self.lines) else number


@lru_cache(maxsize=64)
def canonical_text(source: str) -> CanonicalText:
    """`source` without comments, blank lines, and docstrings that have their lines to themselves.

    A text that cannot be read (`bad_text`, no Python, longer than MOST_CHARS) stands for itself: its verdict is not
    that of a text that can.
    """
    text = uniform_text(source)
    tree = parsed(text) if len(text) <= MOST_CHARS and bad_text(text) is None else None
    if tree is not None:
        try:
            return _shortened(text, tree)
        except (tokenize.TokenError, SyntaxError, RecursionError):  # the tokenizer is not the parser's
            pass
    return CanonicalText(text, tuple(range(1, text.count("\n") + 2)))


def _shortened(text: str, tree: ast.Module) -> CanonicalText:
    rows = _Rows(text)
    replaced: dict[int, str] = {}
    for first, last, alone in _docstrings(tree):
        if rows.hold_only(_DOCSTRING, first, last):
            replaced |= dict.fromkeys(range(first, last + 1), "")
            if alone:
                replaced[first] = rows.indent(first) + "pass"
    found = [(number, replaced.get(number, rows.shortened(number))) for number in range(1, len(rows.rows) + 1)]
    kept = [(number, row) for number, row in found if row or rows.is_needed(number, replaced)]
    return CanonicalText("".join(f"{row}\n" for _, row in kept), tuple(number for number, _ in kept))


class _Rows:
    """The lines of a text, and the tokens on each."""

    def __init__(self, text: str) -> None:
        self.rows = text.removesuffix("\n").split("\n")
        self.kinds: dict[int, set[int]] = defaultdict(set)
        self._comments: dict[int, int] = {}  # row -> column
        self._open: set[int] = set()  # rows whose end is within a token
        for token in tokenize.generate_tokens(io.StringIO(text, newline="\n").readline):
            if token.type in _PLACELESS:
                continue
            for row in range(token.start[0], token.end[0] + 1):
                self.kinds[row].add(token.type)
            self._open.update(range(token.start[0], token.end[0]))
            if token.type == tokenize.COMMENT:
                self._comments[token.start[0]] = token.start[1]

    def hold_only(self, kinds: frozenset[int], first: int, last: int) -> bool:
        """Whether there is nothing else on the rows from `first` to `last`."""
        return all(self.kinds[row] <= kinds for row in range(first, last + 1))

    def indent(self, number: int) -> str:
        row = self.rows[number - 1]
        return row[: len(row) - len(row.lstrip())]

    def shortened(self, number: int) -> str:
        """The row without its comment and the blanks at its end."""
        row = self.rows[number - 1][: self._comments.get(number)]
        return row if number in self._open else row.rstrip(" \t")

    def is_needed(self, number: int, replaced: dict[int, str]) -> bool:
        """Whether an empty row has a meaning: it belongs to a string, or ends a line that was continued."""
        return number not in replaced and not self.kinds[number] <= _LEFT_OUT


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int, bool]]:
    """First and last row of each string at the head of a body; whether it is all that the body has."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            strings = list(_leading(node.body))
            for number, one in enumerate(strings):
                last = number == len(node.body) - 1 and not isinstance(node, ast.Module)
                yield one.lineno, one.end_lineno or one.lineno, last


def _leading(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    for one in body:
        if not (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant) and isinstance(one.value.value, str)):
            return
        yield one


def text_hash(source: str) -> str:
    """sha256 of the whole text, comments included."""
    return hashlib.sha256(uniform_text(source).encode("utf-8", "surrogatepass")).hexdigest()


def canonical_hash(source: str) -> str:
    """sha256 of the text that a candidate is loaded from; candidates of one hash are one program to the byte.

    The same on every version of Python that reads the text alike: a GPU's host may have another one than this machine.
    """
    return text_hash(canonical_text(source).text)
