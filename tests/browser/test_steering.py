"""Steering in real Chromium: two clicks from a node to an act, and every open page shows it by itself."""

from __future__ import annotations

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from tests.browser.live import LiveStack
from tests.browser.stack import wait_for
from tests.browser.watch import Faults

pytestmark = pytest.mark.browser


def grown(page: Page, stack: LiveStack, query: str = "?tab=table") -> int:
    """A run with three nodes, open in `page`."""
    run = stack.write("run")["run"]
    stack.write("grow", run=run, count=2)
    stack.write("grow", run=run, count=1, parent=1)
    page.goto(f"{stack.address}/s/{run}/{query}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    return int(run)


def row(page: Page, number: int):  # type: ignore[no-untyped-def]
    return page.locator(f"#grid-body tr[data-number='{number}']")


def test_two_clicks_prune_a_node_and_every_page_fades_what_is_below(
    page: Page, context: BrowserContext, live_stack: LiveStack
) -> None:
    run = grown(page, live_stack)
    other = context.new_page()
    other.goto(f"{live_stack.address}/s/{run}/?tab=table")
    page.evaluate("() => { window.stayed = true }")
    row(page, 1).click()
    page.get_by_role("button", name="Prune").click()
    expect(page.locator("#drawer").get_by_role("button", name="Restore")).to_be_visible()
    for shown in (page, other):
        expect(row(shown, 1)).to_contain_text("pruned")
        expect(row(shown, 3)).to_have_class("is-faded")
        expect(row(shown, 2)).not_to_have_class("is-faded")
        expect(shown.locator("#steering")).to_contain_text("Pruned: node 1")
    page.get_by_role("button", name="Restore").click()
    expect(row(other, 3)).not_to_have_class("is-faded")
    assert page.evaluate("() => window.stayed")
    other.close()


def test_a_pin_reaches_the_picture_and_is_undone_where_it_is_shown(page: Page, live_stack: LiveStack) -> None:
    grown(page, live_stack, "?n=1")
    drawer = page.locator("#drawer")
    drawer.get_by_label("selections").fill("3")
    drawer.get_by_role("button", name="Pin").click()
    expect(drawer).to_contain_text("3 selections left")
    page.wait_for_timeout(800)  # the act's own event has fetched the panel anew
    expect(drawer.get_by_role("status").filter(has_text="Pinned.")).to_be_visible()

    def flags() -> int:
        return int(page.evaluate("() => window.cockpitTree.scene.by.get(1).m"))

    wait_for(lambda: flags() == 2, 30, "the pin in the picture")
    drawer.get_by_role("button", name="Undo").click()
    expect(drawer).not_to_contain_text("selections left")
    wait_for(lambda: flags() == 0, 30, "the end of the pin in the picture")


def test_a_half_typed_note_outlives_what_comes_in(page: Page, live_stack: LiveStack) -> None:
    run = grown(page, live_stack, "?n=1")
    drawer = page.locator("#drawer")
    drawer.get_by_text("Note to the steps below").click()
    drawer.locator("textarea[name=text]").fill("try split-K, the")
    live_stack.write("mention", run=run, number=1)
    live_stack.write("grow", run=run, count=1, parent=1)
    expect(page.locator("#cockpit")).to_have_attribute("data-told", "4")
    expect(drawer.locator("textarea[name=text]")).to_have_value("try split-K, the")
    drawer.get_by_role("button", name="Add the note").click()
    expect(drawer).to_contain_text("try split-K, the")
    expect(page.locator("#feed")).to_contain_text("has a note for the prompts")


def test_what_another_policy_would_have_done_is_shown_in_place(page: Page, live_stack: LiveStack) -> None:
    grown(page, live_stack, "?n=3")
    drawer = page.locator("#drawer")
    drawer.locator("select[name=policy]").select_option("greedy")
    drawer.get_by_role("button", name="Show").click()
    expect(drawer.locator(".what-if")).to_contain_text("greedy would have taken")
    expect(drawer.locator("#node-panel")).to_be_visible()


def test_what_is_typed_while_the_panel_is_on_its_way_stays(page: Page, live_stack: LiveStack) -> None:
    run = grown(page, live_stack, "?n=1")
    drawer = page.locator("#drawer")
    waiting: list[Route] = []
    expect(drawer.locator(".node-panel")).to_be_visible()
    page.route("**/n/1/", lambda route: waiting.append(route))
    live_stack.write("mention", run=run, number=1)
    wait_for(lambda: page.wait_for_timeout(50) or bool(waiting), 30, "the panel's refresh")
    drawer.get_by_text("Note to the steps below").click()
    drawer.locator("textarea[name=text]").fill("try split-K, the")
    with page.expect_response("**/n/1/"):
        waiting[0].continue_()
    page.wait_for_timeout(300)  # a swap would be over
    expect(drawer.locator("textarea[name=text]")).to_have_value("try split-K, the")


def test_why_an_act_was_refused_outlives_what_comes_in(page: Page, live_stack: LiveStack, faults: Faults) -> None:
    faults.forgive("422")
    run = grown(page, live_stack, "?n=1")
    drawer = page.locator("#drawer")
    field = drawer.get_by_label("selections")
    field.fill("0")  # with the focus in it the form is not swapped any more
    field.evaluate("(field) => { field.form.noValidate = true }")
    drawer.get_by_role("button", name="Pin").click()
    expect(drawer.get_by_role("alert")).to_contain_text("1 to 1000 selections")
    page.evaluate("() => document.activeElement.blur()")
    with page.expect_response("**/n/1/"):
        live_stack.write("mention", run=run, number=1)
    page.wait_for_timeout(300)  # the fresh panel is in place
    expect(drawer.get_by_role("alert")).to_contain_text("1 to 1000 selections")


def test_what_was_unfolded_stays_so_when_the_panel_is_fetched_anew(page: Page, live_stack: LiveStack) -> None:
    run = grown(page, live_stack, "?n=1")
    drawer = page.locator("#drawer")
    drawer.get_by_text("Note to the steps below").click()
    page.evaluate("() => document.activeElement.blur()")
    drawer.locator(".node-panel").evaluate("(panel) => { panel.dataset.old = 'yes' }")
    live_stack.write("mention", run=run, number=1)
    expect(drawer.locator(".node-panel")).not_to_have_attribute("data-old", "yes")
    expect(drawer.locator("textarea[name=text]")).to_be_visible()


def test_on_a_narrow_screen_the_end_of_the_panel_is_in_reach(page: Page, live_stack: LiveStack) -> None:
    page.set_viewport_size({"width": 320, "height": 420})
    grown(page, live_stack, "?n=1")
    last = page.locator("#drawer .node-panel > :last-child")
    last.evaluate("(part) => part.scrollIntoView({ block: 'end' })")
    expect(last).to_be_in_viewport()
