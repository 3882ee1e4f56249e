"""The judge's pages in a real browser: readable without scripts, acts on a device, a live cost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.conftest import stacked
from tests.browser.live import LiveStack

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def live_stack(tmp_path_factory: pytest.TempPathFactory, migrated: Path) -> Iterator[LiveStack]:
    """A stack of its own: where a GPU is, new searches choose it."""
    with stacked(tmp_path_factory, migrated) as stack:
        yield stack


@pytest.fixture(scope="module")
def context(browser: Browser, live_stack: LiveStack) -> Iterator[BrowserContext]:
    context = live_stack.sign_in(browser)
    yield context
    context.close()


@pytest.fixture(scope="module")
def rows(live_stack: LiveStack) -> dict[str, int]:
    return live_stack.write("gpu")


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
    still.get_by_label("Reason").fill("hot")
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
    expect(page.get_by_text("Preflight findings")).to_have_count(0)
    flaw = {
        "code": "problem.dead_ops",
        "message": "One operator has nothing to do.",
        "fix": "Remove it.",
        "flags": True,
    }
    figures = {"flops": 1e9, "compulsory_bytes": 1e6, "declared": [{"name": "narrow", "inputs": [{"shape": [4, 7]}]}]}
    live_stack.write("admission", state="degenerate", message=flaw["message"], flaws=[flaw], **figures)
    expect(page.locator("#problem-cost")).to_contain_text("One operator has nothing to do.")
    expect(page.locator("#problem-cost")).to_contain_text("Compulsory bytes")
    expect(page.locator("#problem-cases")).to_contain_text("narrow")
