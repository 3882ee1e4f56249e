"""Source as HTML lines: nothing hostile survives, nothing is lost, size is bounded."""

from __future__ import annotations

import html
import re

import pytest

from judge.sources.highlighting import listing, render, token_lines, uniform, visible

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
    for line in listing(HOSTILE).lines:
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
