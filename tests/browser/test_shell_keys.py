"""The shell by keyboard alone: palette, global keys, rows of a list, Undo in Activity, shortcuts switched off."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser


def active(page: Page) -> str:
    return str(page.evaluate("() => document.activeElement.id"))


def test_everything_is_reached_and_taken_back_by_keys(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=2)
    page.goto(live_stack.address + "/problems/")

    # The palette: pages and things by name, marked for a screen reader, focus given back.
    page.locator(".brand").focus()
    page.keyboard.press("Control+k")
    field = page.locator("#palette-input")
    expect(field).to_be_focused()
    page.keyboard.type("acti")
    expect(page.locator("#palette-list [aria-selected=true]")).to_contain_text("Activity")
    assert field.get_attribute("aria-activedescendant") == page.locator(
        "#palette-list [aria-selected=true]"
    ).get_attribute("id")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    assert page.evaluate("() => document.activeElement.className") == "brand"
    page.keyboard.press("Control+k")
    page.keyboard.type(f"#{run}")
    expect(page.locator("#palette-list [aria-selected=true]")).to_contain_text(f"#{run}")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/s/{run}/")

    # An act of the page by the palette; one by its own key; neither leaves the page.
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "2")
    page.keyboard.press("Control+k")
    page.keyboard.type("pause")
    page.keyboard.press("Enter")
    expect(page.locator("#cockpit")).to_have_attribute("data-state", "paused")
    page.goto(f"{live_stack.address}/s/{run}/n/1/")
    page.keyboard.press("x")
    expect(page.get_by_text("Pruned: nothing at or below it is selected", exact=True)).to_be_visible()
    page.keyboard.press("i")
    expect(page.locator("#note-1")).to_be_focused()
    page.keyboard.type("g s n ?")  # letters in a field are letters
    expect(page.locator("#note-1")).to_have_value("g s n ?")
    page.keyboard.press("Tab")

    # Activity: rows by j and k, undo by u, and the row is still there, undone.
    page.keyboard.press("g")
    page.keyboard.press("a")
    page.wait_for_url("**/activity/")
    page.keyboard.press("j")
    first = active(page)
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert active(page) == first != ""
    expect(page.locator(f"#{first}")).to_contain_text("is pruned")
    page.keyboard.press("u")
    expect(page.get_by_role("status").filter(has_text="Undone: Node 1 is pruned")).to_be_visible()
    expect(page.locator(f"#{first} td").last).to_contain_text("undone")
    expect(page.locator(f"#{first}")).to_be_focused()

    # The help lists what this page has; the filter takes the focus and Esc gives it back.
    page.keyboard.press("?")
    expect(page.locator("#help")).to_contain_text("Undo the selected action")
    page.locator("[data-keys-switch]").first.press("Space")
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    page.keyboard.press("g")
    page.keyboard.press("s")
    page.keyboard.press("j")
    page.wait_for_timeout(300)
    assert "/activity/" in page.url and active(page) == first  # switched off
    page.keyboard.press("Control+k")
    page.keyboard.type("theme: dark")
    page.keyboard.press("Enter")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.evaluate("() => localStorage.clear()")


def test_the_bar_and_its_pages_fit_a_phone(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    page.set_viewport_size({"width": 320, "height": 700})
    for path in ("/", "/activity/", "/settings/members/", "/settings/providers/", "/find/?q=relu", f"/s/{run}/"):
        page.goto(live_stack.address + path)
        assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0, path
    page.keyboard.press("Control+k")
    box = page.locator("#palette").bounding_box()
    assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 320
