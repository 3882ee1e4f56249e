"""Fixtures of the browser tests."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import launched
from tests.browser.live import LiveStack


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def live_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveStack]:
    """Daphne, a channel server and a writer on a private database, without workers."""
    stack = LiveStack(tmp_path_factory.mktemp("live") / "data")
    stack.start()
    yield stack
    stack.stop()
