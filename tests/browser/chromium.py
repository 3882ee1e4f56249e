"""Real Chromium, as every browser test starts it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, sync_playwright

from tests.tools import find_chromium

ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


@contextlib.contextmanager
def launched() -> Iterator[Browser]:
    """A headless Chromium for the block; skips the test when there is none (`make test` installs one)."""
    path = find_chromium()
    if path is None:
        pytest.skip("no Chromium here: `make test` installs one, or set CHROMIUM to its path")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS)
        yield browser
        browser.close()
