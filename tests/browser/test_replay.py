"""The play-through of a search in real Chromium: by address, button and key, and not unasked under reduced motion."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser


def test_a_search_plays_from_its_first_step_and_is_steered_by_key(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=12)
    page.goto(f"{live_stack.address}/s/{run}/?at=0&play=1")
    cockpit, word, play = page.locator("#cockpit"), page.locator("#replay-word"), page.locator("[data-do=replay-play]")
    expect(play).to_have_text("Pause")
    expect(word).to_have_attribute("aria-live", "off")
    page.wait_for_function("() => Number(document.getElementById('cockpit').dataset.told) >= 2")
    page.keyboard.press("y")
    expect(play).to_have_text("Play")
    expect(word).not_to_have_attribute("aria-live", "off")
    held = word.inner_text()
    page.keyboard.press(".")
    expect(word).not_to_have_text(held)
    page.keyboard.press(",")
    expect(word).to_have_text(held)
    page.locator("#replay-speed").select_option("30")
    play.click()
    expect(cockpit).to_have_attribute("data-told", "12")
    expect(play).to_have_text("Play")
    expect(page.locator("#tree-outside")).to_be_hidden()
    page.locator("[data-do=replay]").click()
    page.keyboard.press(".")
    assert "at=" not in page.url and "play" not in page.url

    page.emulate_media(reduced_motion="reduce")
    page.goto(f"{live_stack.address}/s/{run}/?at=0&play=1")
    expect(word).to_contain_text("0 of")
    expect(play).to_have_text("Play")
    page.wait_for_timeout(400)
    expect(word).to_contain_text("0 of")
