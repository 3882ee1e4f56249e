"""The daily ways through the site, each once by mouse within its clicks and once by keyboard alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from tests.browser.conftest import stacked
from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser
# Clicks of a real pointer: a key that presses a button makes a click without one.
COUNT = """addEventListener("click", (event) => {
  if (event.isTrusted && event.detail > 0) sessionStorage.clicks = 1 + Number(sessionStorage.clicks || 0);
}, true);"""
MOST_TABS = 70


class Hand:
    """Reaches things on a page, by mouse or by Tab and Enter."""

    def __init__(self, page: Page, by: str) -> None:
        self.page, self.by = page, by

    def take(self, target: Locator) -> None:
        if self.by == "mouse":
            target.click()
        else:
            self.tab_to(target)
            self.page.keyboard.press("Enter")

    def take_row(self, number: int) -> None:
        """A row of the tree's table: one stop for Tab, arrows inside."""
        row = self.page.locator(f"#grid-body tr[data-number='{number}']")
        if self.by == "mouse":
            row.click()
            return
        self.tab_to(self.page.locator("#grid-body tr[tabindex='0']"))
        while not row.evaluate("(element) => element === document.activeElement"):
            before = self.page.evaluate("() => document.activeElement.dataset.number")
            self.page.keyboard.press("ArrowDown")
            assert self.page.evaluate("() => document.activeElement.dataset.number") != before, "the table ended"
        self.page.keyboard.press("Enter")

    def tab_to(self, target: Locator) -> None:
        expect(target).to_be_visible()
        for _ in range(MOST_TABS):
            if target.evaluate("(element) => element === document.activeElement"):
                return
            self.page.keyboard.press("Tab")
        raise AssertionError(f"{target} is more than {MOST_TABS} stops away")

    def clicked(self) -> int:
        return int(self.page.evaluate("() => sessionStorage.clicks || 0"))

    def within(self, clicks: int) -> None:
        assert self.clicked() <= (clicks if self.by == "mouse" else 0)


@pytest.fixture(params=["mouse", "keys"])
def hand(request: pytest.FixtureRequest, browser: Browser, live_stack: LiveStack) -> Iterator[Hand]:
    context = live_stack.sign_in(browser, viewport={"width": 1400, "height": 900})
    context.add_init_script(COUNT)
    yield Hand(context.new_page(), request.param)
    context.close()


@pytest.fixture(scope="module")
def fresh_stack(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[LiveStack]:
    """An installation on which nobody has searched yet."""
    with stacked(tmp_path_factory, migrated) as stack:
        yield stack


def test_is_it_working_how_good_and_at_what_cost(hand: Hand, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=6)
    hand.page.goto(live_stack.address)
    hand.take(hand.page.locator(f"main a[href='/s/{run}/']").first)
    evidence = hand.page.locator("#evidence")
    for words in ("running", "MODELLED", "6 of 50", "Proposals"):
        expect(evidence).to_contain_text(words)
    hand.within(1)


@pytest.mark.parametrize("by", ["mouse", "keys"])
def test_the_sample_is_tried_from_the_home_page(by: str, browser: Browser, fresh_stack: LiveStack) -> None:
    fresh_stack.write("nothing_searched")
    context = fresh_stack.sign_in(browser)
    context.add_init_script(COUNT)
    hand = Hand(context.new_page(), by)
    hand.page.goto(fresh_stack.address)
    hand.take(hand.page.get_by_role("link", name="Try sample"))
    hand.take(hand.page.locator("#start-button"))
    hand.page.wait_for_url("**/s/*/")
    expect(hand.page.locator("#cockpit")).to_have_attribute("data-state", "running")
    hand.within(2)
    context.close()


@pytest.mark.parametrize(("button", "said"), [("Pin", "Pinned"), ("Prune", "Pruned")])
def test_a_node_is_steered(hand: Hand, live_stack: LiveStack, button: str, said: str) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=3)
    hand.page.goto(f"{live_stack.address}/s/{run}/?tab=table")
    expect(hand.page.locator("#live")).to_have_attribute("data-state", "live")
    hand.take_row(1)
    hand.take(hand.page.locator("#drawer").get_by_role("button", name=button, exact=True))
    expect(hand.page.locator("#drawer")).to_contain_text(said)
    hand.within(2)


def test_all_failed_nodes_are_pruned_at_once_and_given_back(hand: Hand, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=10)
    hand.page.goto(f"{live_stack.address}/s/{run}/?tab=table")
    hand.take(hand.page.get_by_role("link", name="Bulk actions", exact=True))
    hand.take(hand.page.get_by_role("link", name="failed 2", exact=True))
    hand.take(hand.page.get_by_role("button", name="Prune 2", exact=True))
    expect(hand.page.locator(".undo-toast")).to_contain_text("2 nodes are pruned")
    hand.within(3)
    expect(hand.page.locator("#steering")).to_contain_text("Pruned: node 5, node 10")
    expect(hand.page.locator("#live")).to_have_attribute("data-state", "live")
    hand.page.keyboard.press("u")
    expect(hand.page.locator("#steering")).to_contain_text("used up or undone")


def test_a_search_is_branched_from_a_node(hand: Hand, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=3)
    hand.page.goto(f"{live_stack.address}/s/{run}/?tab=table")
    expect(hand.page.locator("#live")).to_have_attribute("data-state", "live")
    hand.take_row(2)
    hand.take(hand.page.locator("#drawer").get_by_role("button", name="Branch", exact=True))
    hand.page.wait_for_url(lambda url: "/s/" in url and f"/s/{run}/" not in url)
    expect(hand.page.locator(".undo-toast")).to_contain_text("begins with the kernel of node 2")
    hand.within(2)


def test_a_rule_comes_out_of_a_failure(hand: Hand, live_stack: LiveStack) -> None:
    made = live_stack.write("failures")
    hand.page.goto(live_stack.address)
    hand.take(hand.page.get_by_role("link", name="Failures", exact=True))
    hand.take(hand.page.locator(f"a[href='/failures/{made['key']}/']").first)
    claim = hand.page.locator("#claim")
    if hand.by == "keys":
        hand.tab_to(claim)
    claim.fill(f"Do not call dtypes of Triton, by {hand.by}; convert with x.to instead.")
    hand.take(hand.page.get_by_role("button", name="Propose rule"))
    expect(hand.page.locator("#messages")).to_contain_text("waits for review")
    hand.within(3)
