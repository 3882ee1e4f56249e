"""Differences: right lines, folds that open, word marks, blanks, limits, and a bound on work whatever the texts."""

from __future__ import annotations

import html
import re

from django.core.cache import caches
from hypothesis import given
from hypothesis import strategies as st

from search.diffing import cached
from search.diffing.cached import compare_aside
from search.diffing.comparing import (
    CONTEXT,
    MOST_CHARS,
    MOST_LINES,
    MOST_ROWS,
    PAGE_LINES,
    SLOW,
    Diff,
    Options,
    compare,
)
from tests.counting import calls_of

LINES = [f"line_{number} = {number}" for number in range(40)]


def cells(found: Diff, side: str, kind: str = "change") -> list[str]:
    """The texts of one side, in order."""
    rows = "".join(part.html for part in found.parts if part.kind == kind)
    texts = re.findall(rf'<td class="lc {side}">(.*?)</td>', rows)
    return [html.unescape(re.sub(r"<[^>]+>", "", text)) for text in texts]


def sides(found: Diff) -> tuple[list[str], list[str]]:
    return cells(found, "old"), cells(found, "new")


def folds(found: Diff) -> list[int]:
    return [part.lines for part in found.parts if part.kind == "fold"]


def text(*lines: str) -> str:
    return "\n".join(lines)


def test_equal_texts_have_no_parts():
    for old, new in ((text(*LINES), text(*LINES) + "\n"), ("a\r\nb", "a\nb"), ("", "")):
        assert compare(old, new).same and not compare(old, new).parts


def test_a_changed_line_is_one_hunk_with_context_and_folded_rest():
    found = compare(text(*LINES), text(*LINES[:20], "line_20 = 99", *LINES[21:]))
    assert found.hunks == 1 and folds(found) == [20 - CONTEXT, 40 - 21 - CONTEXT]
    assert sides(found) == (["line_20 = 20"], ["line_20 = 99"])
    assert (found.added, found.removed) == (1, 1)


def test_line_numbers_follow_their_own_side():
    found = compare(text(*LINES), text("new", *LINES[:30], *LINES[31:]))
    rows = "".join(part.html for part in found.parts)
    assert 'void"></td><td class="ln new" data-n="1"' in rows  # added
    assert re.search(r'<td class="ln old" data-n="31"></td><td class="lc old">[^v]*</td><td class="ln new void">', rows)
    assert re.search(r'data-n="32"></td><td class="lc old">.*?</td><td class="ln new" data-n="32">', rows)


def test_hunks_close_to_each_other_are_one():
    changed = [f"{line}!" if place in (10, 14) else line for place, line in enumerate(LINES)]
    assert compare(text(*LINES), text(*changed)).hunks == 1
    changed = [f"{line}!" if place in (5, 30) else line for place, line in enumerate(LINES)]
    far = compare(text(*LINES), text(*changed))
    assert far.hunks == 2 and folds(far) == [2, 30 - 6 - 2 * CONTEXT, 40 - 31 - CONTEXT]


def test_a_fold_opens_alone_or_with_all_others():
    old, new = text(*LINES), text(*LINES[:20], "line_20 = 99", *LINES[21:])
    first = compare(old, new, Options(opened=frozenset({1})))
    assert cells(first, "new", "equal") == [*LINES[:20], *LINES[21:24]]
    assert [part.open for part in first.parts if part.kind == "fold"] == [True, False]
    whole = compare(old, new, Options(whole=True))
    assert cells(whole, "old", "equal") == [*LINES[:20], *LINES[21:]] and folds(whole) == folds(first)


def test_added_and_removed_ends_are_shown():
    assert sides(compare("a", "a\nb\nc")) == ([], ["b", "c"])
    assert sides(compare("", "x")) == ([], ["x"])
    assert sides(compare("x\ny", "y")) == (["x"], [])


def test_unified_shows_all_old_lines_of_a_change_before_all_new_ones():
    found = compare("a\nb\nz", "c\nd\nz", Options(unified=True))
    (change,) = (part.html for part in found.parts if part.kind == "change")
    assert re.findall(r'class="lc (\w+)"', change) == ["old", "old", "new", "new"]
    assert re.findall(r"<tr>(.*?)<td class=\"lc", change)[0].count("<td") == 2  # both numbers


def test_blanks_count_unless_told_otherwise():
    old, new = "if x:\n    y = 1\nz", "if x:\n        y  =  1\nz"
    assert compare(old, new).added == 1
    assert compare(old, new, Options(ignore_space=True)).same
    mixed = compare(old + "\nw", new + "\nv", Options(ignore_space=True))
    assert sides(mixed) == (["w"], ["v"])
    assert (cells(mixed, "old", "equal")[1], cells(mixed, "new", "equal")[1]) == ("    y = 1", "        y  =  1")


def test_words_that_differ_are_marked_but_not_in_long_changes():
    left, right = (compare("BLOCK = 128", "BLOCK = 256").parts[0].html.split("</td>")[place] for place in (1, 3))
    assert "<mark>" in left and "<mark>" in right
    assert re.findall(r"<mark>(.*?)</mark>", left + right) == ["128", "256"]
    many = compare(text(*LINES * 3), text(*[f"{line}1" for line in LINES * 3]))
    assert "<mark>" not in many.parts[0].html


def test_markup_in_lines_stays_text_and_hidden_characters_are_flagged():
    found = compare("x\u200b", "<script>alert(1)</script>\u202e")
    assert "<script" not in str(found) and "\u202e" not in str(found) and "U+202E" in str(found)
    assert (found.hidden_old, found.hidden) == ((1,), (1,))


def test_texts_made_to_hang_the_aligner_are_shown_as_one_replacement():
    old = "\n".join(f"x\nu{number}" for number in range(1_900))
    new = "\n".join(f"x\nv{number}" for number in range(1_900))
    found = []
    calls_of(lambda: found.append(compare(old, new, Options(large=True))), most=1_000_000)  # unbounded: many millions
    assert found[0].unaligned and found[0].added == 3_799


def test_long_texts_are_compared_on_demand_and_very_long_ones_never():
    long = "x\n" * (PAGE_LINES + 1)
    assert compare(long, "y").too_large == "demand"
    asked = compare(long, "y", Options(large=True))
    assert not asked.too_large and asked.removed == PAGE_LINES + 1 and not asked.cut
    endless = "x\n" * (MOST_LINES + 1)
    assert compare(endless, "y", Options(large=True)).too_large == "file"
    assert compare("x" * (MOST_CHARS + 1), "y", Options(large=True)).too_large == "file"
    wide = compare("x\n" * (MOST_ROWS + 7), "y", Options(large=True))
    assert wide.cut == 7 and len(cells(wide, "old")) == MOST_ROWS


def test_what_was_compared_before_comes_out_of_the_cache(monkeypatch):
    caches["diffs"].clear()
    first = cached.diff("a", "b")
    monkeypatch.setattr(cached, "compare", lambda *_: Diff(lines=-1))
    assert cached.diff("a", "b") == first
    for old, new, options in (("a", "c", None), ("b", "a", None), ("a", "b", Options(unified=True))):
        assert cached.diff(old, new, options).lines == -1
    monkeypatch.setattr(cached, "FORMATTER", "2")
    assert cached.diff("a", "b").lines == -1


@given(
    st.lists(st.sampled_from("abc\r\x0c\u2028< "), max_size=30),
    st.lists(st.sampled_from("abc\r\x0c\u2028< "), max_size=30),
    st.booleans(),
)
def test_the_parts_add_up_to_both_texts(old, new, ignore_space):
    before, after = "\n".join(old), "\n".join(new)
    found = compare(before, after, Options(ignore_space=ignore_space))
    for side, source in (("old", before), ("new", after)):
        count = len(cells(found, side)) + len(cells(found, side, "equal")) + sum(folds(found))
        lines = source.replace("\r\n", "\n").replace("\r", "\n").removesuffix("\n")
        assert found.same or count == (lines.count("\n") + 1 if lines else 0)


def test_a_long_difference_is_made_aside_and_is_the_same(monkeypatch):
    old, new = text(*LINES * 11), text("new", *LINES * 11)
    monkeypatch.setattr(cached, "compare", None)  # not in this process
    assert cached.diff(old, new) == compare(old, new)


def test_what_takes_too_long_aside_says_so_and_is_tried_again_later(monkeypatch):
    old, new = text(*LINES * 11), text("other", *LINES * 11)
    found = compare_aside(old, new, Options(), limit_s=0.0)
    assert (found.too_large, found.lines, found.same) == (SLOW, 441, False)
    monkeypatch.setattr(cached, "compare_aside", lambda *texts: found)
    assert cached.diff(old, new) == found and caches["diffs"].get(cached.cache_key(old, new, Options())) is None
