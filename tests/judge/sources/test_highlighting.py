"""Source as HTML lines: nothing hostile survives, nothing is lost, size is bounded."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest
from pygments.lexers.python import PythonLexer

from judge.sources.highlighting import Run, css_class, listing, render, runs_by_line, token_lines, uniform, visible

ODD = (
    "",
    "\n\n",
    'x = """a\nreturn y\n"""\nreturn y\n',
    'def f():\n    """One.\n\n    Two.\n    """\n    return 1\n\n"""\nreturn 1\n',
    "a = 1 + \\\n    2\nfrom x import \\\n    y\n",
    "f'{a!r:>{w}}' 'open\nz = 2\n",
    "@deco\nclass A(B): pass\nmatch x:\n    case 1: ...\n\r\t\x00\u2028 é = ñ\n",
)

HOSTILE = 'x = "</td><script>alert(1)</script>"  # \u202etxt.exe\u2066 \u200b\ufeff\x1b[31m \ue000\n"""a\nb"""\n'


def plain(line: str) -> str:
    return html.unescape(re.sub(r"<[^>]+>", "", line))


def test_lines_give_the_source_back():
    source = "def f(a):\n\n\treturn 'x' # y\r\nz = 1\n"
    assert [plain(line) for line in listing(source).lines] == ["def f(a):", "", "\treturn 'x' # y", "z = 1"]


def test_markup_in_a_source_stays_text():
    text = "\n".join(listing(HOSTILE).lines)
    assert "<script" not in text and "</td>" not in text
    assert set(re.findall(r"<(/?\w+)", text)) == {"span", "/span"}


def test_every_line_closes_its_spans():
    lines = listing(HOSTILE).lines
    assert any("<span" in line for line in lines)
    for line in lines:
        assert line.count("<span") == line.count("</span>")


def test_hidden_characters_are_shown_as_code_points_and_their_lines_named():
    shown = listing(HOSTILE)
    for char in "\u202e\u2066\u200b\ufeff\x1b\ue000":
        assert char not in "".join(shown.lines)
        assert f"U+{ord(char):04X}" in shown.lines[0]
    assert shown.hidden_lines == (1,)


def test_ordinary_text_of_other_scripts_is_not_hidden():
    shown = listing("# größer 快 🙂 café\n")
    assert shown.hidden_lines == ()
    assert "größer 快 🙂 café" in shown.lines[0]


def test_large_text_loses_colours_then_its_body():
    plain_text = listing("x = 1\n" * 5_000)
    assert plain_text.plain and len(plain_text.lines) == 5_000 and "<span" not in plain_text.lines[0]
    assert listing("x\n" * 30_000).too_large and listing("x" * 2_000_000).lines == ()


def test_nothing_at_all_is_no_line():
    assert listing("").lines == () and listing("").total_lines == 0


@pytest.mark.parametrize("source", ["'''open", "\x00\x01", "def", "\ud800", "\t" * 50, "0x" * 5_000, "([{" * 3_000])
def test_odd_text_is_shown_and_never_raises(source):
    assert len(listing(source).lines) == 1


def test_marked_columns_survive_token_borders():
    (runs,) = token_lines("ab = 12")
    assert plain(render(runs, ((1, 6),))) == "ab = 12"
    assert "".join(re.findall(r"<mark>([^<]*)</mark>", render(runs, ((1, 6),)))) == "b = 1"


def test_plain_text_keeps_its_lines_and_shows_terminal_codes():
    assert visible("\x1b[31mred\x1b[0m\r\nnext\u202e\tok") == "\\u001b[31mred\\u001b[0m\nnext\\u202e\tok"
    assert uniform("a\r\nb\rc\n") == "a\nb\nc"


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
def test_the_runs_are_those_of_the_library(source):
    assert runs_by_line(source) == plainly(source)
