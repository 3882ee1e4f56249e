"""Lines that were read before are not read again, and read the same as by the library alone."""

from __future__ import annotations

from pathlib import Path

import pytest
from pygments.lexers.python import PythonLexer

from judge.sources.lexing import LONGEST_LINE, MOST_LINES, LineMemory, Run, css_class, runs_by_line

ODD = (
    "",
    "\n\n",
    'x = """a\nreturn y\n"""\nreturn y\n',
    'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n\n"""\nreturn 1\n',
    "a = 1 + \\\n    2\nfrom x import \\\n    y\n",
    "f'{a!r:>{w}}' 'open\nz = 2\n",
    "@deco\nclass A(B): pass\nmatch x:\n    case 1: ...\n\r\t\x00\u2028 é = ñ\n",
)


def plainly(source: str) -> tuple[tuple[Run, ...], ...]:
    """What Pygments says, line by line."""
    rows: list[list[Run]] = [[]]
    for _, kind, text in PythonLexer(stripnl=False, ensurenl=False).get_tokens_unprocessed(source):
        for index, piece in enumerate(text.split("\n")):
            if index:
                rows.append([])
            if piece and rows[-1] and rows[-1][-1][0] == css_class(kind):
                rows[-1][-1] = (css_class(kind), rows[-1][-1][1] + piece)
            elif piece:
                rows[-1].append((css_class(kind), piece))
    return tuple(map(tuple, rows))


@pytest.mark.parametrize("source", [*ODD, Path(__file__).read_text()])
def test_it_reads_as_the_library_does_with_lines_known_or_not(source):
    seen = LineMemory()
    expected = plainly(source)
    for _ in range(2):
        assert runs_by_line(source, seen) == expected
    for other in ODD:
        runs_by_line(other, seen)
    assert runs_by_line(source, seen) == expected


def test_a_line_of_a_string_is_not_taken_for_one_of_code():
    seen = LineMemory()
    runs_by_line("return y\nz = 1\n", seen)
    runs = runs_by_line('x = """a\nreturn y\n"""\n', seen)
    assert runs[1] == plainly('x = """a\nreturn y\n"""\n')[1] != seen.rows["return y"]


def test_the_memory_is_bounded():
    seen = LineMemory()
    seen.keep("x" * (LONGEST_LINE + 1), [])
    for number in range(MOST_LINES + 5):
        seen.keep(str(number), [])
    assert len(seen.rows) == 5
