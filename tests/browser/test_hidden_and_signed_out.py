"""A tab that nobody looks at, and a session that ended: both stay readable, and both come back without a loop."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.cutter import ABNORMAL, Cutter, cutting
from tests.browser.live import LiveStack
from tests.browser.watch import SERVER_AWAY, Faults

pytestmark = pytest.mark.browser
GUESTS = itertools.count(1)
# Whether the tab is seen is the test's to say; a redial comes after the shortest delay there is.
SEEN = """
  Math.random = () => 0;
  window.unseen = false;
  Object.defineProperty(Document.prototype, "hidden", { get: () => window.unseen });
  window.see = (yes) => { window.unseen = !yes; document.dispatchEvent(new Event("visibilitychange")); };
"""


@pytest.fixture
def cutter(live_stack: LiveStack) -> Iterator[Cutter]:
    with cutting(live_stack.port) as cutter:
        yield cutter


@pytest.fixture
def own(browser: Browser, live_stack: LiveStack) -> Iterator[BrowserContext]:
    """A person and a session of its own, which may end."""
    name = f"guest-{next(GUESTS)}"
    live_stack.write("person", name=name, role="operator")
    context = live_stack.sign_in(browser, name=name)
    context.add_init_script(SEEN)
    context.guest = name  # type: ignore[attr-defined]
    yield context
    context.close()


def opened(context: BrowserContext, address: str, run: int) -> Page:
    page = context.new_page()
    page.goto(f"{address}/s/{run}/")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    return page


def test_a_hidden_tab_draws_nothing_and_catches_up_when_it_is_seen(
    own: BrowserContext, cutter: Cutter, live_stack: LiveStack, faults: Faults
) -> None:
    faults.forgive(*SERVER_AWAY, "failed: net::ERR_")
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=2)
    page = opened(own, cutter.address, run)
    page.wait_for_timeout(300)  # the first drawing is over
    page.evaluate(
        "() => { see(false); window.drawn = 0; cockpitTree.addEventListener('painted', () => { drawn += 1 }) }"
    )
    live_stack.write("grow", run=run, count=3)
    expect(page).to_have_title("● relu · AdaExplore")
    assert page.evaluate("() => window.drawn") == 0
    cutter.cut(ABNORMAL)  # nobody sees that either
    live_stack.write("grow", run=run, count=4)
    page.evaluate("() => see(true)")
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "9")
    expect(page).to_have_title("relu · AdaExplore")
    expect(page.locator("#feed li")).to_have_count(10)
    page.wait_for_function("() => window.drawn > 0")


def test_an_ended_session_is_said_once_and_the_page_comes_back_after_signing_in(
    own: BrowserContext, cutter: Cutter, live_stack: LiveStack, faults: Faults
) -> None:
    faults.forgive(*SERVER_AWAY, "failed: net::ERR_")
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=2)
    page = opened(own, cutter.address, run)
    live_stack.write("sign_out", name=own.guest)  # type: ignore[attr-defined]
    cutter.cut(1012)
    expect(page.locator("#live")).to_have_attribute("data-state", "signed-out")
    expect(page.get_by_role("link", name="Sign in again")).to_be_visible()
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_disabled()
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.on("websocket", lambda socket: asked.append(socket.url))
    live_stack.write("grow", run=run, count=1)
    page.wait_for_timeout(1500)  # five of the shortest delays
    assert asked == []
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "2")
    live_stack.sign_in_again(own, own.guest)  # type: ignore[attr-defined]
    page.evaluate("() => see(true)")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "3")
    expect(page.get_by_role("link", name="Sign in again")).to_have_count(0)
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_enabled()
