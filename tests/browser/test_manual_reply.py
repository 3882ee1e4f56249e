"""A reply written by hand in real Chromium: nothing that comes in meanwhile takes the half-typed text away."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser

HALF = "```python\nimport torch\n\nclass ModelNew("
WHOLE = HALF + "torch.nn.Module):\n    pass\n```\n"
POLL_MS = 3000


def type_half(page: Page) -> dict[str, Any]:
    """Type the first half of a reply and select its last word; what the reader then has."""
    page.locator("#reply-text").click()
    page.keyboard.insert_text(HALF)
    for _ in range(len("ModelNew(")):
        page.keyboard.press("Shift+ArrowLeft")
    state = held(page)
    assert state == {"text": HALF, "focus": "reply-text", "selected": "ModelNew("}
    return state


def held(page: Page) -> dict[str, Any]:
    found = page.evaluate(
        """() => {
          const field = document.getElementById("reply-text");
          return field && {
            text: field.value,
            focus: document.activeElement.id,
            selected: field.value.slice(field.selectionStart, field.selectionEnd),
          };
        }"""
    )
    return dict(found or {})


def panels_asked_for(page: Page) -> list[str]:
    """Requests for node 1 from now on. One that came back would swap the panel, and the field with it."""
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url) if "/n/1/" in request.url else None)
    return asked


def test_a_half_typed_reply_outlives_the_polls_of_the_node_s_own_page(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("ask")["run"]
    page.clock.install()
    page.goto(f"{live_stack.address}/s/{run}/n/1/")
    before = type_half(page)
    live_stack.write("mention", run=run, number=1)
    live_stack.write("tell", run=run, number=2, speedup=1.5)
    asked = panels_asked_for(page)
    page.clock.run_for(3 * POLL_MS)
    assert (held(page), asked) == (before, [])


def test_the_same_page_polls_once_the_reply_is_sent_and_moves_on_from_judging(
    page: Page, live_stack: LiveStack
) -> None:
    run = live_stack.write("ask")["run"]
    page.clock.install()
    page.goto(f"{live_stack.address}/s/{run}/n/1/")
    page.locator("#reply-text").fill(WHOLE)
    page.get_by_role("button", name="Send to the judge").click()
    expect(page.locator(".node-head-line")).to_contain_text("judging")
    live_stack.write("tell", run=run, number=1, speedup=1.5)
    with page.expect_response(lambda answer: "/n/1/" in answer.url and answer.request.method == "GET") as polled:
        page.clock.run_for(POLL_MS + 500)
    assert polled.value.status == 200
    expect(page.locator(".node-head-line")).to_contain_text("correct")


def test_live_updates_leave_a_half_typed_reply_in_the_cockpit_alone(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("ask")["run"]
    open_drawer(page, live_stack, run)
    before, asked = type_half(page), panels_asked_for(page)
    live_stack.write("mention", run=run, number=1)
    live_stack.write("tell", run=run, number=2, speedup=1.5)
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "1")
    expect(page.locator("#evidence")).to_contain_text("1 of 5")
    assert (held(page), asked) == (before, [])


def test_a_draft_outlives_live_updates_while_its_author_looks_elsewhere(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("ask")["run"]
    open_drawer(page, live_stack, run)
    type_half(page)
    page.locator("#tree-title").click()
    asked = panels_asked_for(page)
    live_stack.write("mention", run=run, number=1)
    live_stack.write("tell", run=run, number=2, speedup=1.5)
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "1")
    assert (held(page)["text"], asked) == (HALF, [])


def test_a_panel_that_was_in_use_is_fetched_when_its_reader_leaves_it(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("ask")["run"]
    open_drawer(page, live_stack, run)
    page.locator("#reply-text").click()
    asked = panels_asked_for(page)
    live_stack.write("tell", run=run, number=1, speedup=1.5)
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "1")
    assert asked == []
    page.locator("#tree-title").click()
    expect(page.locator("#drawer .node-head-line")).to_contain_text("correct")


def open_drawer(page: Page, stack: LiveStack, run: int) -> None:
    page.goto(f"{stack.address}/s/{run}/?n=1")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator("#drawer #reply-text")).to_be_visible()
