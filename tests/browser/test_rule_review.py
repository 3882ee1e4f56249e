"""The review queue in real Chromium: twenty rules by keyboard, undo, two reviewers, no scripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browser.live import LiveStack
from tests.browser.stack import wait_for
from tests.browser.watch import Faults

pytestmark = pytest.mark.browser


def queue(page: Page, stack: LiveStack, count: int) -> None:
    """`count` rules, the queue open and its keys ready."""
    stack.write("rules", count=count)
    page.goto(f"{stack.address}/rules/")
    expect(page.locator(".rule-card.is-current")).to_have_count(1)


def shown(page: Page) -> str:
    return str(page.locator(".rule-card.is-current").get_attribute("data-rule"))


def decided(stack: LiveStack) -> dict[str, list[str]]:
    return {pk: row for pk, row in stack.write("rule_states").items() if row[0] != "proposed"}


def test_a_reviewer_decides_twenty_rules_by_keyboard_and_waits_for_no_answer(page: Page, live_stack: LiveStack) -> None:
    queue(page, live_stack, 24)
    held: list[Route] = []
    silent = [True]  # the server, for the first three
    page.route("**/rules/*/act", lambda route: held.append(route) if silent else route.continue_())
    for k in range(20):
        if k == 3:
            assert len(held) == 1 and not decided(live_stack)  # they are sent one after the other
            silent.clear()
            held[0].continue_()
        before = shown(page)
        if k % 3 == 2:
            page.keyboard.press("r")
            page.keyboard.press(str(1 + k % 5))
        else:
            page.keyboard.press("s" if k % 7 == 6 else "a")
        page.wait_for_function("id => document.querySelector('.rule-card.is-current')?.dataset.rule !== id", arg=before)
    wait_for(lambda: page.locator("[data-left]").inner_text() == "4", 30, "twenty decisions on the server")
    states = [row[0] for row in decided(live_stack).values()]
    assert (states.count("rejected"), states.count("approved")) == (6, 12)
    expect(page.locator(".rule-card")).to_have_count(4)


def test_undo_brings_the_card_back_to_its_place(page: Page, live_stack: LiveStack) -> None:
    queue(page, live_stack, 8)
    order = page.eval_on_selector_all(".rule-card", "cards => cards.map((card) => card.dataset.rule)")
    page.keyboard.press("j")
    page.keyboard.press("a")
    assert shown(page) == order[2]
    page.keyboard.press("u")
    expect(page.locator("#review-undo")).to_contain_text("Undone: approval")
    assert page.eval_on_selector_all(".rule-card", "cards => cards.map((card) => card.dataset.rule)")[:4] == order[:4]
    assert shown(page) == order[1] and decided(live_stack) == {}
    page.keyboard.press("a")  # the card that came back carries its new revision
    expect(page.locator("#review-undo")).to_contain_text("was approved")
    page.reload()
    page.keyboard.press("u")  # the act is offered again after a reload
    expect(page.locator("#review-undo")).to_contain_text("Undone: approval")
    wait_for(lambda: decided(live_stack) == {}, 30, "the undo")


def test_editing_scoping_merging_and_splitting_by_key(page: Page, live_stack: LiveStack) -> None:
    queue(page, live_stack, 4)
    first = shown(page)
    page.keyboard.press("e")
    page.keyboard.press("Control+a")
    page.keyboard.type("Do not call tl.dot on one row.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(f"#claim-{first}")).to_have_text("Do not call tl.dot on one row.")
    assert shown(page) == first
    page.keyboard.press("3")
    expect(page.locator(f"#rule-{first} .rule-line")).to_contain_text("GPU sm_90")
    page.keyboard.press("v")
    page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    page.keyboard.type("Do not call tl.dot on one column.")
    page.keyboard.press("Control+Enter")
    expect(page.locator("#review-undo")).to_contain_text("was split")
    expect(page.locator(f"#rule-{first} .rule-line")).to_contain_text("1 failure")
    page.keyboard.press("m")
    other = page.locator(".rule-card:not(.is-current)").first.get_attribute("data-rule")
    page.keyboard.press("Control+a")
    page.keyboard.type(f"#{other}")
    page.keyboard.press("Enter")
    expect(page.locator(f"#rule-{first}")).to_have_count(0)
    expect(page.locator("#review-undo")).to_contain_text(f"was merged into rule {other}")
    page.locator(f"#claim-{other}").click()  # its card knows of the merge: no conflict with oneself
    page.keyboard.press("a")
    expect(page.locator("#review-undo")).to_contain_text(f"Rule {other} was approved")


def test_refused_words_are_still_there_to_be_corrected(page: Page, live_stack: LiveStack, faults: Faults) -> None:
    faults.forgive("422")
    queue(page, live_stack, 2)
    first = shown(page)
    words = page.locator(f"#rule-{first} details[data-part=e] textarea")
    page.keyboard.press("e")
    page.keyboard.press("Control+a")
    page.keyboard.type("Do not close the bracket on line 223.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(f"#rule-{first} [role=alert]")).to_contain_text("quotes a line number")
    expect(words).to_be_focused()
    expect(words).to_have_value("Do not close the bracket on line 223.")
    page.keyboard.press("Control+a")
    page.keyboard.type("Do not leave a bracket open.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(f"#claim-{first}")).to_have_text("Do not leave a bracket open.")


@pytest.fixture
def second(browser: Browser, live_stack: LiveStack) -> Iterator[Page]:
    """Another reviewer at another machine."""
    live_stack.write("user_too", name="rolf")
    context = live_stack.sign_in(browser, name="rolf")
    yield context.new_page()
    context.close()


def test_two_reviewers_of_one_rule_lose_nothing(
    page: Page, second: Page, live_stack: LiveStack, faults: Faults
) -> None:
    faults.forgive("409")
    queue(page, live_stack, 3)
    first = shown(page)
    expect(page.locator(f"#rule-{first} .rule-holder")).to_have_text("")
    second.goto(f"{live_stack.address}/rules/")
    expect(second.locator(f"#rule-{first} .rule-holder")).to_have_text("Held by watcher")
    assert shown(second) != first  # the free ones come first
    second.locator(f"#claim-{first}").click()
    page.keyboard.press("e")
    page.keyboard.press("Control+a")
    page.keyboard.type("Do not call tl.dot on one row.")
    page.keyboard.press("Control+Enter")
    expect(page.locator(f"#claim-{first}")).to_have_text("Do not call tl.dot on one row.")
    second.keyboard.press("r")
    second.keyboard.press("2")
    conflict = second.locator(f"#rule-{first} .conflict")
    expect(conflict).to_contain_text("watcher")
    expect(conflict).to_contain_text("Do not call tl.dot on one row.")
    expect(conflict).to_contain_text("You cannot call")
    assert decided(live_stack) == {}
    conflict.get_by_role("button", name="Reject the current version").click()
    expect(second.locator(f"#rule-{first}")).to_have_count(0)
    found = live_stack.write("rule_states")[first]
    assert found == ["rejected", 2, "Do not call tl.dot on one row.", "Too vague to act on"]


def test_the_queue_works_without_scripts_and_on_a_phone(browser: Browser, live_stack: LiveStack) -> None:
    live_stack.write("rules", count=12)  # two digits beside "Rules" in the bar
    context = live_stack.sign_in(browser, java_script_enabled=False, viewport={"width": 320, "height": 700})
    page = context.new_page()
    for path in ("/rules/", "/rules/?tab=library", "/rules/bulk?act=approve", "/rules/new", "/failures/"):
        page.goto(live_stack.address + path)
        assert page.evaluate("() => document.documentElement.scrollWidth - innerWidth") <= 0, path
    page.goto(live_stack.address + "/rules/")
    expect(page.locator(".rule-card")).to_have_count(6)
    page.get_by_role("button", name="Approve").first.click()
    expect(page.get_by_text("was approved").first).to_be_visible()
    page.get_by_role("button", name="Undo").click()
    expect(page.get_by_text("Undone: approval").first).to_be_visible()
    page.get_by_text("Reject r").first.click()
    page.get_by_role("button", name="Too vague").first.click()
    expect(page.get_by_text("Too vague to act on").first).to_be_visible()
    page.get_by_role("link", name="More", exact=True).click()
    expect(page.locator(".rule-card")).to_have_count(5)
    context.close()
