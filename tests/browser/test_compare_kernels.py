"""Understand the best and take it home, and compare two kernels: by mouse within few clicks, and by keys alone."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def kernels(live_stack: LiveStack) -> dict[str, Any]:
    return live_stack.write("kernels")


@pytest.fixture(autouse=True)
def no_ticks(page: Page, live_stack: LiveStack) -> None:
    page.goto(f"{live_stack.address}/compare")
    page.evaluate("() => sessionStorage.clear()")


def cockpit(page: Page, stack: LiveStack, run: int, query: str = "") -> None:
    page.goto(f"{stack.address}/s/{run}/{query}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def is_ticked(page: Page, *keys: str) -> None:
    expect(page.locator("#ticked li")).to_have_text([f"#{key} ×" for key in keys])


def test_the_best_is_understood_in_two_clicks_and_taken_home_in_one(
    page: Page, live_stack: LiveStack, kernels: dict[str, Any]
) -> None:
    cockpit(page, live_stack, kernels["run"])
    page.locator(".fact-best dt a").click()
    page.locator("#drawer #tab-diff").click()
    expect(page.locator("#drawer .diff-sum")).to_contain_text("lines against")
    with page.expect_download() as saved:
        page.get_by_role("link", name="Download best").click()
    assert saved.value.suggested_filename.endswith(f"node{kernels['best'].split('.')[1]}.py")


def test_the_same_by_keys_alone(page: Page, live_stack: LiveStack, kernels: dict[str, Any]) -> None:
    cockpit(page, live_stack, kernels["run"])
    page.keyboard.press("b")
    page.keyboard.press("d")
    expect(page.locator("#drawer .diff-sum")).to_contain_text("lines against")
    page.locator("#base-number").fill("1")
    page.locator("#base-number").press("Enter")
    fold = page.locator("#diff-fold-1")
    expect(fold).to_have_text("15 equal lines")
    fold.focus()
    page.keyboard.press("Enter")
    expect(fold).to_have_text("Fold 15 equal lines")
    expect(fold).to_be_focused()
    assert f"/s/{kernels['run']}/?" in page.url, "the cockpit was left"
    page.keyboard.press("h")
    expect(page.locator("#diff-hunk-1")).to_have_class("change is-here")
    with page.expect_download():
        page.keyboard.press("Shift+D")


def test_two_kernels_are_compared_in_three_clicks(page: Page, live_stack: LiveStack, kernels: dict[str, Any]) -> None:
    cockpit(page, live_stack, kernels["run"], "?tab=table")
    first, best = kernels["first"], kernels["best"]
    page.locator(f'#grid [data-tick="{first}"]').click()
    page.locator(f'#grid [data-tick="{best}"]').click()
    is_ticked(page, first, best)
    page.locator("#compare-ticked").click()
    expect(page.locator(".compare-delta").first).to_contain_text("of the baseline: faster")
    expect(page.locator("#diff-b .diff-sum")).to_contain_text("lines against A")


def test_the_same_by_keys_over_several_pages(page: Page, live_stack: LiveStack, kernels: dict[str, Any]) -> None:
    first, best, tied = kernels["first"], kernels["best"], kernels["tied"]
    cockpit(page, live_stack, kernels["run"])
    page.keyboard.press("b")
    expect(page.locator("#drawer [data-tick]")).to_be_visible()
    page.keyboard.press("c")
    is_ticked(page, best)
    page.keyboard.press("g")
    page.keyboard.press("k")
    page.wait_for_url("**/kernels/")
    page.keyboard.press("g")
    page.keyboard.press("c")  # part of a chord: leads on, and ticks nothing
    page.wait_for_url("**/campaigns/")
    page.go_back()
    page.wait_for_url("**/kernels/")
    is_ticked(page, best)
    page.keyboard.press("j")
    page.keyboard.press("c")
    is_ticked(page, best, tied)
    page.goto(f"{live_stack.address}/s/{first.replace('.', '/n/')}/")
    page.keyboard.press("c")
    is_ticked(page, best, tied, first)
    page.keyboard.press("c")
    page.keyboard.press("Shift+C")
    page.wait_for_url("**/compare?*")
    expect(page.locator(".compare-note").first).to_contain_text("another problem")
    letters = page.locator("thead th")
    expect(letters.nth(0)).to_contain_text("baseline")
    page.keyboard.press("2")
    expect(letters.nth(1)).to_contain_text("baseline")
    page.keyboard.press("s")
    page.wait_for_url(f"**/compare?k={tied},{best}&base={best}")


def test_a_kernel_is_retired_and_brought_back_by_keys(
    page: Page, live_stack: LiveStack, kernels: dict[str, Any]
) -> None:
    page.clock.install()
    page.goto(f"{live_stack.address}/kernels/?problem=sum")
    row = page.locator("tr[data-row]").filter(has_text="sum-max-mean")
    page.keyboard.press("j")
    page.keyboard.press("x")
    expect(page.locator(".undo-toast")).to_contain_text("Retired")
    expect(row).to_have_count(0)
    expect(page.get_by_role("link", name="1 retired")).to_be_visible()
    page.locator(".undo-toast button").focus()
    page.clock.fast_forward(60_000)  # it waits while it is in use
    page.keyboard.press("u")
    expect(page.locator(".undo-toast")).to_contain_text("Undone")
    expect(row).to_have_count(1)
    page.clock.fast_forward(9_000)
    expect(page.locator(".undo-toast")).to_be_visible()
    page.clock.fast_forward(1_500)
    expect(page.locator(".undo-toast")).to_have_count(0)
    assert page.url.endswith("/kernels/?problem=sum")
