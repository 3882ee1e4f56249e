"""Acts from the tree: by key and by menu, shown at once, taken back when refused, undone by a key."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.live import LiveStack
from tests.browser.stack import wait_for
from tests.browser.test_steering import grown, row
from tests.browser.watch import Faults

pytestmark = pytest.mark.browser


def test_a_key_on_a_row_acts_on_that_row_at_once_and_u_takes_it_back(page: Page, live_stack: LiveStack) -> None:
    grown(page, live_stack)
    row(page, 1).click()  # another node's panel is open
    expect(page.locator("#drawer .node-panel")).to_be_visible()
    row(page, 2).focus()
    held: list[Route] = []
    page.route("**/steer", lambda route: held.append(route))
    with page.expect_request("**/steer"):
        page.keyboard.press("p")
    expect(row(page, 2)).to_contain_text("sending")  # before the server has answered
    answer = held[0].fetch()
    expect(page.locator("#drawer")).to_contain_text("Pinned: 5 selections left")  # a live update, before the answer
    held[0].fulfill(response=answer)
    expect(row(page, 2)).to_contain_text("pinned")
    expect(row(page, 2)).not_to_contain_text("sending")
    toast = page.locator(".undo-toast")
    expect(toast).to_contain_text("is pinned")  # although the form that posted has left the page
    page.keyboard.press("u")
    expect(toast).to_contain_text("Undone")
    expect(row(page, 2)).not_to_contain_text("pinned")
    expect(row(page, 1)).not_to_contain_text("pinned")


def test_what_the_server_refuses_is_taken_back(page: Page, live_stack: LiveStack, faults: Faults) -> None:
    faults.forgive("500")
    grown(page, live_stack)
    row(page, 1).click()
    expect(page.locator("#drawer .node-panel")).to_be_visible()
    waiting: list[Route] = []
    page.route("**/steer", lambda route: waiting.append(route))
    page.keyboard.press("x")
    expect(row(page, 1)).to_contain_text("pruned")
    expect(row(page, 3)).to_have_class("is-faded")
    wait_for(lambda: page.wait_for_timeout(50) or bool(waiting), 30, "the request: the row changes before it")
    waiting[0].fulfill(status=500)
    expect(row(page, 1)).not_to_contain_text("pruned")
    expect(row(page, 3)).not_to_have_class("is-faded")
    expect(page.get_by_role("alert")).to_contain_text("The server failed")


def test_the_menu_offers_all_acts_on_picture_and_twin(page: Page, live_stack: LiveStack) -> None:
    grown(page, live_stack)
    row(page, 2).focus()
    row(page, 2).click(button="right")
    menu = page.get_by_role("menu", name="Node 2")
    assert menu.get_by_role("menuitem").all_inner_texts() == [
        "Pin the node\np", "Prune the node\nx", "Boost the node\ns", "Note for the prompts below\ni",
        "Add a kernel\na", "Branch a new search\nr", "Judge and measure the kernel again\nv",
        "Quarantine the kernel\nq",
    ]  # fmt: skip
    page.keyboard.press("Escape")
    expect(menu).to_be_hidden()
    expect(row(page, 2)).to_be_focused()
    page.keyboard.press("t")
    page.wait_for_function("() => window.cockpitTree.placed && window.cockpitTree.places.get(2)")
    at = page.evaluate("() => { const t = window.cockpitTree; return t.screen(t.places.get(2)); }")
    page.locator("#tree").click(button="right", position={"x": at["x"], "y": at["y"]})
    page.get_by_role("menuitem", name="Quarantine the kernel").click()
    expect(page.locator("#drawer")).to_contain_text("Release")
    expect(page.locator(".undo-toast")).to_contain_text("is quarantined")
    page.keyboard.press("t")
    expect(row(page, 2)).to_contain_text("quarantined")


def test_a_key_leads_to_the_field_where_something_is_to_be_written(page: Page, live_stack: LiveStack) -> None:
    grown(page, live_stack, "?n=1")
    drawer = page.locator("#drawer")
    expect(drawer.locator(".node-panel")).to_be_visible()
    page.keyboard.press("a")
    expect(drawer.locator("textarea[name=source]")).to_be_focused()
    page.keyboard.press("Escape")
    expect(drawer).to_be_hidden()
    page.wait_for_function("() => document.activeElement === document.body")
    page.keyboard.press("q")
    expect(page.locator("#tree-said")).to_contain_text("Choose a node first")
