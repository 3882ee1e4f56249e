"""The theme in real Chromium: the system's until one is chosen, on the page and on the canvas, without a reload."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser

LIGHT = {
    "page": "rgb(246, 246, 243)",
    "tree": "rgb(255, 255, 255)",
    "mark": "rgb(23, 112, 63)",
    "edge": "rgb(203, 200, 192)",
}
DARK = {"page": "rgb(20, 20, 19)", "tree": "rgb(28, 28, 26)", "mark": "rgb(95, 201, 138)", "edge": "rgb(74, 72, 67)"}


def colours(page: Page) -> dict[str, Any]:
    """What page and canvases are painted with."""
    found = page.evaluate(
        """() => ({
          page: getComputedStyle(document.body).backgroundColor,
          tree: window.cockpitTree.colours.surface,
          mark: getComputedStyle(document.querySelector(".is-correct")).color,
          edge: window.cockpitTree.colours.edge,
        })"""
    )
    return dict(found)


def choose(page: Page, name: str) -> None:
    page.locator("summary[aria-label^='Menu of']").click()
    page.locator("[data-theme-switch]").get_by_role("radio", name=name).check()
    page.keyboard.press("Escape")


@pytest.mark.parametrize(("system", "own"), [("light", LIGHT), ("dark", DARK)])
def test_a_chosen_theme_wins_over_the_system_s_and_is_given_back(
    page: Page, live_stack: LiveStack, system: Any, own: dict[str, str]
) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=3)
    page.emulate_media(color_scheme=system)
    page.goto(f"{live_stack.address}/s/{run}/")
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "3")
    assert colours(page) == own
    for name, shown in (("Dark", DARK), ("Light", LIGHT), ("System", own)):
        choose(page, name)
        assert colours(page) == shown, name
        page.reload()
        expect(page.locator("#cockpit")).to_have_attribute("data-told", "3")
        assert colours(page) == shown, f"{name}, after a reload"


def test_a_system_that_turns_dark_is_followed_at_once_by_page_and_canvas(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=3)
    page.emulate_media(color_scheme="light", reduced_motion="reduce")
    page.goto(f"{live_stack.address}/s/{run}/")
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "3")
    picture = page.evaluate("() => document.getElementById('tree').toDataURL()")
    page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    page.wait_for_function("(before) => document.getElementById('tree').toDataURL() !== before", arg=picture)
    assert colours(page) == DARK
