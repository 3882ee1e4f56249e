"""Differences: right lines, folded context, word marks, and a bound on work whatever the texts."""

from __future__ import annotations

import html
import re
import time

from hypothesis import given
from hypothesis import strategies as st

from search.diffs import CONTEXT, Diff, diff

LINES = [f"line_{number} = {number}" for number in range(40)]


def sides(found: Diff) -> tuple[list[str], list[str]]:
    """The texts of changed lines, old and new."""
    rows = [row for hunk in found.hunks for block in hunk.blocks if block.kind == "change" for row in block.rows]
    texts = [[html.unescape(re.sub(r"<[^>]+>", "", side.html)) for side in column if side] for column in zip(*rows)]  # noqa: B905
    return texts[0], texts[1]


def text(*lines: str) -> str:
    return "\n".join(lines)


def test_equal_texts_have_no_hunks():
    assert diff(text(*LINES), text(*LINES) + "\n").same
    assert diff("a\r\nb", "a\nb").same
    assert diff("", "").same


def test_a_changed_line_is_one_hunk_with_context_and_folded_rest():
    found = diff(text(*LINES), text(*LINES[:20], "line_20 = 99", *LINES[21:]))
    (hunk,) = found.hunks
    assert (hunk.skipped, found.skipped_after) == (20 - CONTEXT, 40 - 21 - CONTEXT)
    assert sides(found) == (["line_20 = 20"], ["line_20 = 99"])
    assert (found.added, found.removed) == (1, 1)


def test_line_numbers_follow_their_own_side():
    found = diff(text(*LINES), text("new", *LINES[:30], *LINES[31:]))
    numbers = [
        (left and left.number, right and right.number)
        for hunk in found.hunks
        for b in hunk.blocks
        for left, right in b.rows
    ]
    assert (None, 1) in numbers and (1, 2) in numbers and (31, None) in numbers and (32, 32) in numbers


def test_hunks_close_to_each_other_are_one():
    changed = [f"{line}!" if place in (10, 14) else line for place, line in enumerate(LINES)]
    assert len(diff(text(*LINES), text(*changed)).hunks) == 1
    changed = [f"{line}!" if place in (5, 30) else line for place, line in enumerate(LINES)]
    assert [hunk.skipped for hunk in diff(text(*LINES), text(*changed)).hunks] == [2, 30 - 6 - 2 * CONTEXT]


def test_added_and_removed_ends_are_shown():
    assert sides(diff("a", "a\nb\nc")) == ([], ["b", "c"])
    assert sides(diff("", "x")) == ([], ["x"])
    assert sides(diff("x\ny", "y")) == (["x"], [])


def test_words_that_differ_are_marked():
    found = diff("BLOCK = 128", "BLOCK = 256")
    (left, right) = found.hunks[0].blocks[0].rows[0]
    assert left and right
    assert "<mark>" in left.html and "<mark>" in right.html
    assert "BLOCK" not in "".join(re.findall(r"<mark>(.*?)</mark>", left.html))


def test_markup_in_lines_stays_text():
    found = diff("x", "<script>alert(1)</script>\u202e")
    assert "<script" not in str(found) and "\u202e" not in str(found)


def test_texts_made_to_hang_the_aligner_are_shown_as_one_replacement():
    old = "\n".join(f"x\nu{number}" for number in range(1_900))
    new = "\n".join(f"x\nv{number}" for number in range(1_900))
    started = time.perf_counter()
    found = diff(old, new)
    assert found.unaligned and found.added == 3_799
    assert time.perf_counter() - started < 20  # unbounded it takes many minutes


def test_very_long_texts_are_not_compared():
    assert diff("x\n" * 5_000, "y").too_large


@given(
    st.lists(st.sampled_from("abc\r\x0c\u2028<"), max_size=30),
    st.lists(st.sampled_from("abc\r\x0c\u2028<"), max_size=30),
)
def test_the_parts_add_up_to_both_texts(old, new):
    before, after = "\n".join(old), "\n".join(new)
    found = diff(before, after)
    shown = [row for hunk in found.hunks for block in hunk.blocks for row in block.rows]
    folded = sum(hunk.skipped for hunk in found.hunks) + found.skipped_after
    for side, source in enumerate((before, after)):
        count = len([row for row in shown if row[side]]) + folded
        lines = source.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        assert found.same or count == (lines.count("\n") + 1 if lines else 0)
