"""The cockpit in real Chromium against real Daphne: it grows by itself, loses nothing and leaves the view alone."""

from __future__ import annotations

import gzip

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Response, expect

from tests.browser.live import LiveStack
from tests.browser.watch import SERVER_AWAY, Faults

pytestmark = pytest.mark.browser


def watch(page: Page, stack: LiveStack, run: int, query: str = "") -> None:
    page.goto(f"{stack.address}/s/{run}/{query}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def told(page: Page) -> int:
    return int(page.locator("#cockpit").get_attribute("data-told") or 0)


def expect_told(page: Page, count: int) -> None:
    expect(page.locator("#cockpit")).to_have_attribute("data-told", str(count))


def feed_numbers(page: Page) -> list[int]:
    found = page.evaluate("() => [...document.querySelectorAll('#feed li')].map((li) => Number(li.dataset.seq))")
    return [int(number) for number in found]


def view_of(page: Page) -> object:
    """What belongs to the reader: scroll places, selection, focus, address, and the picture's place."""
    return page.evaluate(
        """() => ({
          scroll: [scrollX, scrollY, document.getElementById('feed').scrollTop > 0],
          selected: [...document.querySelectorAll('[aria-selected]')].map((row) => row.dataset.number),
          focus: document.activeElement.id || document.activeElement.dataset.number || document.activeElement.tagName,
          drawer: document.getElementById('drawer-title').textContent,
          address: location.href,
        })"""
    )


def test_nodes_feed_header_and_chart_grow_without_a_reload(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    watch(page, live_stack, run)
    page.evaluate("() => { window.stayed = true }")
    expect(page.locator("#tree-empty")).to_be_visible()
    live_stack.write("grow", run=run, count=6)
    expect_told(page, 6)
    expect(page.locator("#evidence")).to_contain_text("6 of 50")
    expect(page.locator("#evidence")).to_contain_text("MODELLED")
    expect(page.locator("#failures")).to_contain_text("wrong.values")
    expect(page.locator("#chart-caption")).to_contain_text("6 candidates")
    expect(page.locator("#tree-empty")).to_be_hidden()
    numbers = feed_numbers(page)
    assert numbers == sorted(numbers, reverse=True)
    assert page.evaluate("() => window.stayed") is True


def test_kernels_slower_than_pytorch_are_called_closest_until_one_is_faster(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    watch(page, live_stack, run, "?tab=table")
    live_stack.write("grow", run=run, count=2, speedup=0.5)
    expect_told(page, 2)
    expect(page.locator("#chart-caption")).to_contain_text(
        "Nothing faster than PyTorch yet; the closest kernel is node 2"
    )
    expect(page.locator("#evidence")).to_contain_text("Nothing faster than PyTorch yet")
    expect(page.locator('#grid tr[data-number="2"]')).to_contain_text("closest so far")
    expect(page.locator("#grid")).not_to_contain_text("best")
    live_stack.write("grow", run=run, speedup=1.5)
    expect_told(page, 3)
    expect(page.locator("#chart-caption")).to_contain_text("the best was set once, by node 3")
    expect(page.locator('#grid tr[data-number="3"]')).to_contain_text("best so far")
    expect(page.locator("#evidence")).to_contain_text("Download best")


def test_the_picture_shows_the_nodes(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    watch(page, live_stack, run)
    blank = page.locator("#tree").screenshot()
    live_stack.write("grow", run=run, count=3)
    expect_told(page, 3)
    page.wait_for_timeout(400)  # the easing of places
    assert page.locator("#tree").screenshot() != blank


def test_live_data_moves_neither_scroll_nor_selection_nor_focus(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run", steps=60)["run"]
    live_stack.write("grow", run=run, count=20)
    page.set_viewport_size({"width": 1400, "height": 600})
    watch(page, live_stack, run, "?tab=table&n=4")
    expect(page.locator("#drawer-title")).to_have_text("Node 4")
    page.locator('#grid tr[data-number="7"]').focus()
    page.evaluate("() => { scrollTo(0, 120) }")
    before = view_of(page)
    for parent in (0, 4, 7):
        live_stack.write("grow", run=run, count=5, parent=parent)
    expect_told(page, 35)
    assert view_of(page) == before


def test_the_anchor_node_stays_where_it_is_while_the_tree_grows(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run", steps=20)["run"]
    live_stack.write("grow", run=run, count=4)
    watch(page, live_stack, run)
    page.mouse.move(5, 5)
    place = "() => { const t = window.cockpitTree; return t.screen(t.places.get(t.selected)) }"
    page.keyboard.press("b")
    expect(page.locator("#drawer")).to_be_visible()
    page.wait_for_timeout(400)
    before = page.evaluate(place)
    live_stack.write("grow", run=run, count=6, parent=1)
    expect_told(page, 10)
    after = page.evaluate(place)
    assert (round(after["x"]), round(after["y"])) == (round(before["x"]), round(before["y"]))


def test_a_killed_server_loses_and_doubles_nothing(page: Page, live_stack: LiveStack, faults: Faults) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=3)
    watch(page, live_stack, run)
    live_stack.kill_web()
    expect(page.locator("#live")).to_have_attribute("data-state", "offline")
    head = live_stack.write("grow", run=run, count=5)["head"]
    live_stack.start_web()
    expect_told(page, 8)
    live_stack.write("grow", run=run, count=2)
    expect_told(page, 10)
    numbers = feed_numbers(page)
    assert numbers == sorted(set(numbers), reverse=True)
    assert numbers[0] > head
    faults.forgive(*SERVER_AWAY)


def test_nothing_is_lost_when_the_channel_server_is_away(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    watch(page, live_stack, run)
    live_stack.stop_redis()
    try:
        live_stack.write("grow", run=run, count=2)
        expect_told(page, 2)
    finally:
        live_stack.start_redis()
    live_stack.write("grow", run=run, count=2)
    expect_told(page, 4)


def test_sockets_that_never_open_are_replaced_by_polling(browser: Browser, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    context = live_stack.sign_in(browser)
    page = context.new_page()
    page.add_init_script(
        """window.WebSocket = class extends EventTarget {
             constructor() { super(); setTimeout(() => this.onclose && this.onclose({ code: 1006 }), 5); }
             close() {} send() {}
             static OPEN = 1;
           };"""
    )
    page.goto(f"{live_stack.address}/s/{run}/")
    expect(page.locator("#live")).to_have_attribute("data-state", "polling", timeout=30_000)
    live_stack.write("grow", run=run, count=3)
    expect_told(page, 3)
    context.close()


def test_pause_holds_the_page_and_resume_brings_all_of_it(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    watch(page, live_stack, run)
    page.keyboard.press("l")
    expect(page.locator("#live")).to_have_attribute("data-state", "paused")
    live_stack.write("grow", run=run, count=2)
    expect(page.locator("#live-word")).to_contain_text("new")
    assert told(page) == 0
    page.locator("#live").click()
    expect_told(page, 2)
    expect(page.locator("#live")).to_have_attribute("data-state", "live")


def test_signing_out_elsewhere_keeps_the_page_readable(browser: Browser, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=2)
    context = live_stack.sign_in(browser)
    page = context.new_page()
    watch(page, live_stack, run)
    context.clear_cookies()
    page.evaluate("() => { dispatchEvent(new Event('online')) }")  # dials again, now without a session
    expect(page.locator("#live")).to_have_attribute("data-state", "signed-out")
    expect(page.get_by_role("link", name="Sign in again")).to_be_visible()
    assert told(page) == 2
    context.close()


def test_the_table_is_walked_and_folded_by_keys_and_shares_the_selection(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=2)
    live_stack.write("grow", run=run, count=2, parent=1)
    watch(page, live_stack, run, "?tab=table")
    rows = page.locator("#grid-body tr")
    expect(rows).to_have_count(5)
    page.locator('#grid tr[data-number="1"]').focus()
    page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(3)
    page.keyboard.press("ArrowRight")
    expect(rows).to_have_count(5)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator("#drawer-title")).to_have_text("Node 3")
    assert "n=3" in page.url
    page.keyboard.press("Escape")
    expect(page.locator("#drawer")).to_be_hidden()
    assert page.evaluate("() => document.activeElement.dataset.number") == "3"


def test_an_earlier_moment_can_be_shown_again_and_is_in_the_address(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=6)
    live_stack.write("end", run=run)
    watch(page, live_stack, run, "?at=6")
    expect_told(page, 2)
    expect(page.locator("#evidence")).to_contain_text("event 6 of")
    page.get_by_role("button", name="One step forward").click()
    expect(page.locator("#cockpit")).to_have_attribute("data-nodes", "4")
    page.get_by_role("button", name="Replay").click()
    expect_told(page, 6)
    expect(page.locator("#evidence")).to_contain_text("finished")
    assert "at=" not in page.url


def test_without_the_picture_libraries_the_tables_carry_the_page(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    live_stack.write("grow", run=run, count=3)
    page.route("**/vendor/**", lambda route: route.fulfill(status=200, body=""))
    watch(page, live_stack, run)
    expect(page.locator("#vendor-missing")).to_be_visible()
    expect(page.locator("#chart-still")).to_be_visible()
    live_stack.write("grow", run=run, count=1)
    expect(page.locator("#grid-body tr")).to_have_count(5)


def test_the_page_weighs_less_than_150_kb_and_keeps_to_its_own_server(
    context: BrowserContext, live_stack: LiveStack
) -> None:
    run = live_stack.write("run", steps=100)["run"]
    live_stack.write("grow", run=run, count=60)
    page = context.new_page()
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    watch(page, live_stack, run)
    assert {answer.url.split("/")[2] for answer in answers} == {live_stack.address.split("/")[2]}
    weight = sum(len(gzip.compress(answer.body(), 6)) for answer in answers if answer.status == 200)
    assert weight < 150_000, f"{weight} bytes"
    page.close()


def test_pause_stop_and_going_on_work_from_the_page_without_leaving_it(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    watch(page, live_stack, run)
    page.evaluate("() => { window.stayed = true }")
    page.get_by_role("button", name="Pause", exact=True).click()
    expect(page.locator("#evidence")).to_contain_text("paused")
    expect(page.get_by_role("button", name="Resume", exact=True)).to_be_visible()
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("#evidence")).to_contain_text("running")
    page.on("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#evidence")).to_contain_text("stop")
    page.get_by_role("button", name="Resume", exact=True).click()
    expect(page.locator("#evidence")).to_contain_text("running")
    page.get_by_role("button", name="Stop", exact=True).click()
    expect(page.locator("#evidence")).to_contain_text("stop")
    assert page.evaluate("() => window.stayed") is True


def test_an_equal_kernel_of_a_lower_number_is_the_best_as_on_the_server(page: Page, live_stack: LiveStack) -> None:
    run = live_stack.write("run")["run"]
    first, second = (live_stack.write("reserve", run=run)["number"] for _ in range(2))
    watch(page, live_stack, run)
    for number in (second, first):
        live_stack.write("tell", run=run, number=number, speedup=2.0)
    expect_told(page, 2)
    expect(page.locator("#chart-caption")).to_contain_text(f"raised 2 times, last by node {first}")
    expect(page.locator("#evidence .fact-best dt")).to_contain_text(f"node {first}")
