"""The start button follows the preflight beside it: none for a refused problem, and no reload to say so."""

from __future__ import annotations

import pytest
from playwright.sync_api import Page, Route, expect

from tests.browser.live import LiveStack
from tests.browser.watch import Faults

pytestmark = pytest.mark.browser
WHY = "The preflight on interpreter refused this problem. It returns a dict."


def test_a_refusal_that_arrives_disables_start_and_says_why_beside_it(page: Page, live_stack: LiveStack) -> None:
    slug = live_stack.write("admission", state="running")["problem"]
    page.goto(f"{live_stack.address}/new?problem={slug}")
    page.get_by_label("Steps").fill("7")
    expect(page.locator("#start-button")).to_be_enabled()
    live_stack.write("admission", state="refused", message="It returns a dict.")
    expect(page.locator("#start-button")).to_be_disabled()
    expect(page.locator("#start-button")).to_have_accessible_description(
        f"{WHY} Upload a corrected module, or choose another device."
    )
    expect(page.get_by_label("Steps")).to_have_value("7")  # only the button was replaced
    page.get_by_label("Steps").press("Enter")
    expect(page).to_have_url(f"{live_stack.address}/new?problem={slug}")


def test_start_comes_back_when_the_preflight_is_taken_up_again(page: Page, live_stack: LiveStack) -> None:
    slug = live_stack.write("admission", state="refused", message="It returns a dict.")["problem"]
    page.goto(f"{live_stack.address}/new?problem={slug}")
    expect(page.locator("#start-button")).to_be_disabled()
    page.get_by_role("button", name="Check again").click()
    expect(page.locator("#start-button")).to_be_enabled()
    expect(page.locator("#start-why-not")).to_have_count(0)
    live_stack.write("admission", state="admitted")
    page.locator("#start-button").click()
    page.wait_for_url("**/s/*/")


def test_the_page_of_a_problem_takes_its_way_to_a_search_back(page: Page, live_stack: LiveStack) -> None:
    slug = live_stack.write("admission", state="running")["problem"]
    page.goto(f"{live_stack.address}/problems/{slug}/")
    expect(page.get_by_role("link", name="Start search")).to_be_visible()
    live_stack.write("admission", state="refused", message="It returns a dict.")
    expect(page.get_by_role("link", name="Start search")).to_have_count(0)
    expect(page.locator("#problem-head")).to_contain_text(WHY)


def test_what_the_server_forbids_or_cannot_do_is_said_in_sight(
    page: Page, live_stack: LiveStack, faults: Faults
) -> None:
    faults.forgive("403", "500", "ERR_FAILED", "htmx:")
    page.goto(f"{live_stack.address}/new")
    page.evaluate("() => { document.getElementById('main').style.paddingBlockEnd = '3000px'; scrollTo(0, 2000); }")
    why = "<p data-why>This needs the role 'operator'.</p>"
    answers = iter([(403, why), (403, ""), (500, why)])

    def answer(route: Route) -> None:
        status, body = next(answers)
        route.fulfill(status=status, body=body)

    page.route("**/problem-upload/", answer)
    for words in ("This needs the role", "out of date. Reload", "The server failed (500)"):
        page.locator("#dropzone-file").set_input_files({"name": "a.py", "mimeType": "text/x-python", "buffer": b"1"})
        expect(page.get_by_role("alert")).to_contain_text(words)
        expect(page.get_by_role("alert")).to_be_in_viewport()
    page.unroute_all()
    page.route("**/problem-upload/", lambda route: route.abort())
    page.locator("#dropzone-file").set_input_files({"name": "b.py", "mimeType": "text/x-python", "buffer": b"1"})
    expect(page.get_by_role("alert")).to_contain_text("cannot be reached")
