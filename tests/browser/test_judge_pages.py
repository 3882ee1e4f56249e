"""The judge's pages in a real browser: room on a phone, readable without scripts, acts on a device, a live cost."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser
WIDTHS = (320, 700, 1400)


@pytest.fixture(scope="module")
def rows(live_stack: LiveStack) -> dict[str, int]:
    return live_stack.write("gpu")


def addresses(rows: dict[str, int]) -> list[str]:
    numbers = [rows[name] for name in ("best_evaluation", "wrong_evaluation", "flagged_evaluation")]
    pages = ["/devices/", f"/devices/{rows['gpu']}/", "/problems/row-softmax/", "/problems/sum-max-mean/"]
    return pages + [f"/evaluations/{number}/" for number in numbers]


def test_no_page_is_wider_than_its_window(page: Page, live_stack: LiveStack, rows: dict[str, int]) -> None:
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 800})
        for path in addresses(rows):
            page.goto(live_stack.address + path)
            over = page.evaluate("() => document.documentElement.scrollWidth - innerWidth")
            assert over <= 0, f"{path} is {over} px wider than {width}"


@pytest.fixture
def still(browser: Browser, live_stack: LiveStack) -> Iterator[Page]:
    """A browser without scripts."""
    context = live_stack.sign_in(browser, java_script_enabled=False)
    yield context.new_page()
    context.close()


def test_everything_is_there_without_scripts(still: Page, live_stack: LiveStack, rows: dict[str, int]) -> None:
    still.goto(f"{live_stack.address}/evaluations/{rows['best_evaluation']}/")
    expect(still.locator(".strip .median")).to_have_count(4)
    expect(still.get_by_text("faster: the whole interval is beyond 1 %")).to_be_visible()
    still.goto(f"{live_stack.address}/problems/row-softmax/")
    expect(still.locator(".roofline-plot .plot-mark")).to_have_count(3)
    still.goto(f"{live_stack.address}/devices/{rows['gpu']}/")
    still.get_by_label("Why").fill("hot")
    still.get_by_role("button", name="Drain").click()
    expect(still.get_by_text("cuda:0 is draining.")).to_be_visible()
    expect(still.get_by_text("hot")).to_be_visible()
    still.get_by_role("button", name="Activate").click()
    expect(still.get_by_text("cuda:0 is active.")).to_be_visible()


def test_samples_are_downloaded(page: Page, live_stack: LiveStack, rows: dict[str, int]) -> None:
    page.goto(f"{live_stack.address}/evaluations/{rows['best_evaluation']}/")
    with page.expect_download() as found:
        page.get_by_role("link", name="CSV").click()
    assert found.value.suggested_filename == f"evaluation-{rows['best_evaluation']}-samples.csv"
    assert "candidate,measured,cuda_events,0," in found.value.path().read_text()


def test_cost_and_flaws_arrive_with_the_preflight(page: Page, live_stack: LiveStack) -> None:
    slug = live_stack.write("admission", state="running")["problem"]
    page.goto(f"{live_stack.address}/problems/{slug}/")
    expect(page.get_by_text("What the preflight found")).to_have_count(0)
    flaw = {
        "code": "problem.dead_ops",
        "message": "One operator has nothing to do.",
        "fix": "Remove it.",
        "flags": True,
    }
    figures = {"flops": 1e9, "compulsory_bytes": 1e6}
    live_stack.write("admission", state="degenerate", message=flaw["message"], flaws=[flaw], **figures)
    expect(page.locator("#problem-cost")).to_contain_text("One operator has nothing to do.")
    expect(page.locator("#problem-cost")).to_contain_text("Compulsory bytes")
