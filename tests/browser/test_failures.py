"""Failures in real Chromium: keys move over clusters, mute one and lead to its rule; forms do the rest."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser


def test_keys_move_open_mute_and_lead_to_the_rule(page: Page, live_stack: LiveStack) -> None:
    made = live_stack.write("failures")
    page.goto(live_stack.address)
    page.keyboard.press("g")
    page.keyboard.press("e")
    page.wait_for_url("**/failures/")
    page.keyboard.press("j")
    expect(page.locator("[data-cluster]").first).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator("[data-cluster]").nth(1)).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/failures/{made['key']}/")
    page.keyboard.press("m")
    expect(page.locator("#messages")).to_contain_text("Muted until")
    page.keyboard.press("y")
    expect(page.locator("#claim")).to_be_focused()
    page.keyboard.type("m Do not call dtypes of Triton; convert with x.to instead.")
    page.get_by_role("button", name="Propose rule").click()
    expect(page.locator("#messages")).to_contain_text("sightings now and waits for review")
    page.goto(f"{live_stack.address}/failures/")
    expect(page.get_by_role("link", name="1 muted")).to_be_visible()
