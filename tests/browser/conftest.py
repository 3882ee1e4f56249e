"""Fixtures of the browser tests."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.chromium import launched
from tests.browser.live import LiveStack
from tests.browser.watch import Faults

expect.set_options(timeout=30_000)  # other parts of the suite run beside these


@pytest.fixture(scope="session")
def watched() -> Faults:
    """What goes wrong in the browser, the signing in before the first test included."""
    return Faults()


@pytest.fixture(scope="session")
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
    """A data folder with an empty database at the newest migration, for copies; one for all workers of a run."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    with (shared / "migrated.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stack = LiveStack(shared / "migrated")
        if not stack.data.exists():
            stack.migrate()
    return stack.data


@pytest.fixture(scope="session")
def live_stack(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[LiveStack]:
    """Daphne, a channel server and a writer on one database for all tests of a worker; each makes runs of its own."""
    with stacked(tmp_path_factory, migrated) as stack:
        yield stack


@contextlib.contextmanager
def stacked(places: pytest.TempPathFactory, migrated: Path) -> Iterator[LiveStack]:
    """A stack for the block, for the modules that need a database without the rows of others."""
    stack = LiveStack(places.mktemp("live") / "data", migrated)
    stack.start()
    try:
        yield stack
    finally:
        stack.stop()


@pytest.fixture(scope="session")
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
