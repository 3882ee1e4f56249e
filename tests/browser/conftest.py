"""Fixtures of the browser tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.chromium import launched
from tests.browser.live import LiveStack
from tests.browser.watch import Faults


@pytest.fixture(scope="module")
def watched() -> Faults:
    """What goes wrong in the module's browser, the signing in before the first test included."""
    return Faults()


@pytest.fixture(scope="module")
def browser(watched: Faults) -> Iterator[Browser]:
    with launched() as browser:
        watched.watch(browser)
        yield browser


@pytest.fixture(autouse=True)
def faults(browser: Browser, watched: Faults) -> Iterator[Faults]:
    """Every page of every test is watched: a fault that the test has not forgiven fails it."""
    yield watched
    assert watched.settle() == []


@pytest.fixture(scope="session")
def migrated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder with an empty database at the newest migration, for copies."""
    stack = LiveStack(tmp_path_factory.mktemp("migrated") / "data")
    stack.migrate()
    return stack.data


@pytest.fixture(scope="module")
def live_stack(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[LiveStack]:
    """Daphne, a channel server and a writer on a private database, without workers."""
    stack = LiveStack(tmp_path_factory.mktemp("live") / "data", migrated)
    stack.start()
    yield stack
    stack.stop()


@pytest.fixture(scope="module")
def context(browser: Browser, live_stack: LiveStack) -> Iterator[BrowserContext]:
    """Signed in to the live stack, with room for the cockpit's three columns."""
    context = live_stack.sign_in(browser, viewport={"width": 1400, "height": 900})
    yield context
    context.close()


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()
