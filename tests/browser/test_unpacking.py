"""The page reads a snapshot in short as the server wrote it."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page

from search.live.columns import packed
from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser
COLUMNS = {
    "n": [0, 1, 2, 3, 5], "p": [-1, 0, 1, 0, 3], "o": [0, 2, None, 1, 3], "b": [0.0, 1.5, 1.7, 1.7, 1234.5],
    "t": [0.0, 3.1, None, 2.2, 1300.0], "x": [None, 2.314999, None, 1.005, 123.456],
    "lo": [None, 2.245, None, 0.9, 61.728], "hi": [None, 2.375, None, 1.115, 246.912],
    "bs": ["", "measured", "", "measured", "modelled"], "k": [0, 1, 1, 2, 2],
}  # fmt: skip


def test_columns_in_short_come_out_as_they_went_in(page: Page, live_stack: LiveStack) -> None:
    page.goto(live_stack.address)
    read = page.evaluate("async (short) => (await import('/static/js/unpack.js')).unpack(short)", packed(COLUMNS))
    ends = {name: (COLUMNS[name], read.pop(name)) for name in ("lo", "hi")}
    assert read == {name: column for name, column in COLUMNS.items() if name not in ends}
    for wrote, got in ends.values():
        for k, (before, after) in enumerate(zip(wrote, got, strict=True)):
            assert before is after is None or after == pytest.approx(before, rel=1e-5 if k == 4 else 0.006)
            assert k not in (1, 3) or f"{after:.2f}" == f"{before:.2f}"  # as pages print it
