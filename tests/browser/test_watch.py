"""The watcher of the other browser tests sees each kind of fault, and only faults."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.watch import Faults

pytestmark = pytest.mark.browser
HOME = "http://127.0.0.1:9/"  # nobody listens there: every answer is written here


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context()
    yield context.new_page()
    context.close()


def shown(page: Page, html: str) -> None:
    page.route(HOME, lambda route: route.fulfill(body=html, content_type="text/html"))
    page.route("**/fine.js", lambda route: route.fulfill(body="window.ran = true", content_type="text/javascript"))
    page.route("**/gone.js", lambda route: route.fulfill(status=404))
    page.route("**/cut.js", lambda route: route.abort("connectionreset"))
    page.goto(HOME)
    page.wait_for_load_state("networkidle")


@pytest.mark.parametrize(
    ("html", "told"),
    [
        ("<script>throw new Error('boom')</script>", ["script: boom"]),
        ("<script>console.error('odd')</script>", ["console: odd"]),
        ("<script src='/gone.js'></script>", ["console: Failed to load resource"]),
        ("<script src='/cut.js'></script>", ["failed: net::ERR_CONNECTION_RESET", "console: Failed to load resource"]),
        ("<script src='http://elsewhere.example/fine.js'></script>", ["foreign: http://elsewhere.example/fine.js"]),
        ("<script src='http://127.0.0.1:10/fine.js'></script>", ["foreign: http://127.0.0.1:10/fine.js"]),
    ],
)
def test_a_fault_is_told(page: Page, faults: Faults, html: str, told: list[str]) -> None:
    shown(page, html)
    found = faults.settle()
    assert len(found) == len(told), found
    for words in told:
        assert any(fault.startswith(words) for fault in found), found


def test_a_page_without_faults_is_left_alone(page: Page, faults: Faults) -> None:
    shown(page, "<link rel='icon' href='data:,'><script src='/fine.js'></script><script>console.warn('hm')</script>")
    assert page.evaluate("() => window.ran") is True
    assert faults.told == []


def test_expected_faults_are_forgiven_and_others_stay(page: Page, faults: Faults) -> None:
    faults.forgive("expected", "later")
    shown(page, "<script>for (const word of ['expected', 'surprise', 'later']) console.error(word)</script>")
    (left,) = faults.settle()
    assert "surprise" in left
