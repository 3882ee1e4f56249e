"""Python text to a syntax tree in time that grows with the text. Standard library only.

Two things take `ast.parse` time that grows with the square of the text: an import of a name of very many parts, and (up
to Python 3.11) a formatted string of very many fields. Both are refused before they are parsed.
"""

from __future__ import annotations

import ast
import re

MOST_PARTS = 500  # of one dotted name
MOST_FIELD_CHARS = 1 << 26  # fields times characters, summed over the formatted strings: some 30 ms

_BLANK = r"(?:[ \t\f]|\\\n)*+"
_DOTTED = re.compile(rf"(?<!\w)(?:\w++{_BLANK}\.{_BLANK})++")
# Comments, so that a quote in one opens nothing, and strings, closed or not. Possessive throughout: linear.
_STRING = re.compile(
    r"#[^\n]*+"
    r'|"""(?:[^"\\]++|\\.|"(?!""))*+(?:"""|\\?\Z)'
    r"|'''(?:[^'\\]++|\\.|'(?!''))*+(?:'''|\\?\Z)"
    r'|"(?:[^"\\\n]++|\\.)*+"?+'
    r"|'(?:[^'\\\n]++|\\.)*+'?+",
    re.DOTALL,
)


def parse_module(source: str) -> ast.Module:
    """`ast.parse(source)`. Raises what that raises (SyntaxError, ValueError, RecursionError, MemoryError), and a
    SyntaxError with a line for text that would take too long."""
    fault = _slow(source)
    if fault is not None:
        place, message = fault
        error = SyntaxError(message)
        error.lineno = source.count("\n", 0, place) + 1
        raise error
    return ast.parse(source)


def parsed(source: str) -> ast.Module | None:
    """`parse_module(source)`, or None for text that is no Python."""
    try:
        return parse_module(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _slow(source: str) -> tuple[int, str] | None:
    """Where the text would take too long to parse, and why."""
    for name in _DOTTED.finditer(source):
        if name[0].count(".") > MOST_PARTS:
            return name.start(), f"a dotted name has more than {MOST_PARTS} parts"
    work = 0
    for string in _STRING.finditer(source):
        if "f" in source[max(0, string.start() - 2) : string.start()].lower():
            work += string[0].count("{") * len(string[0])
            if work > MOST_FIELD_CHARS:
                return string.start(), "formatted strings (f-strings) hold too many fields: split them, or use a loop"
    return None
