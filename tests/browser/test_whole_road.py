"""The main job in real Chromium, on the product as a user starts it: upload, watch, download; then kill things."""

from __future__ import annotations

import contextlib
import io
import sqlite3
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from tests.browser.stack import Stack, wait_for
from tests.browser.watch import SERVER_AWAY, Faults

pytestmark = pytest.mark.browser

MODULE = '''"""A gate: sigmoid of a scaled sum, times the input."""

import torch
from torch import nn

ROWS, COLUMNS = 32, 96


class Model(nn.Module):
    def __init__(self, scale):
        super().__init__()
        self.scale = scale
        self.bias = nn.Parameter(torch.randn(COLUMNS))

    def forward(self, x):
        return torch.sigmoid(x * self.scale + self.bias) * x


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [1.5]
'''


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    stack = Stack(tmp_path_factory.mktemp("road") / "data").start()
    yield stack
    if stack.process is not None and stack.process.poll() is None:
        stack.stop()
    assert stack.leftovers() == []


@pytest.fixture(scope="module")
def context(browser: Browser, stack: Stack) -> Iterator[BrowserContext]:
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    yield context
    context.close()


@pytest.fixture(scope="module", autouse=True)
def first_run(context: BrowserContext, stack: Stack) -> int:
    """The search that two clicks start on the first page of a new installation, once its first node is told.

    The card for it is there only as long as nothing has been searched, so this comes before every test.
    """
    page = context.new_page()
    page.goto(stack.link)
    page.get_by_role("link", name="Try sample").click()
    page.locator("#start-button").click()
    page.wait_for_url("**/s/*/**", timeout=60_000)
    run = run_id(page)
    wait_for(lambda: told(stack, run), 90, "the first told node")
    page.once("dialog", lambda dialog: dialog.accept())
    page.locator("[data-control=stop] button").click()  # it would share the device with the searches of the tests
    expect(page.locator("[data-control=stop]")).to_be_hidden()
    page.close()
    return run


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    yield page
    page.close()


def run_id(page: Page) -> int:
    return int(page.url.split("/s/")[1].split("/")[0])


def snapshot(page: Page, run: int) -> dict[str, object]:
    """What the server knows of a run, past all scripts of the page."""
    answer = page.request.get(page.url.split("/s/")[0] + f"/s/{run}/snapshot")
    assert answer.ok
    return dict(answer.json())


def told(stack: Stack, run: int) -> list[int]:
    """Numbers of the told nodes of a run, the root left out, straight from the rows."""
    with contextlib.closing(sqlite3.connect(stack.data / "db.sqlite3", timeout=20)) as rows:
        asked = "SELECT number FROM search_node WHERE run_id = ? AND state = 'told' AND number > 0 ORDER BY number"
        return [number for (number,) in rows.execute(asked, (run,))]


def start_sample(page: Page, stack: Stack, steps: int, slug: str = "row_softmax") -> int:
    page.goto(stack.address + "/new")
    page.locator(f"a[href$='?problem={slug}']").click()
    page.get_by_label("Steps").fill(str(steps))
    page.locator("#start-button").click()
    page.wait_for_url("**/s/*/**", timeout=60_000)
    return run_id(page)


def test_two_clicks_start_a_sample_whose_first_node_is_told(first_run: int, stack: Stack) -> None:
    assert told(stack, first_run)[0] == 1


def test_upload_watch_look_and_take_the_winner_home(page: Page, stack: Stack, tmp_path: Path) -> None:
    page.goto(stack.address + "/new")
    page.locator("input[type=file]").set_input_files(
        {"name": "gate.py", "mimeType": "text/x-python", "buffer": MODULE.encode()}
    )
    upload = page.get_by_role("button", name="Upload")
    if upload.count() and upload.first.is_visible():
        upload.first.click()
    expect(page.locator("#start-button")).to_be_visible(timeout=30_000)
    page.get_by_label("Steps").fill("4")
    page.locator("#start-button").click()
    page.wait_for_url("**/s/*/**", timeout=60_000)
    run = run_id(page)
    page.evaluate("() => { window.stayed = true }")
    expect(page.locator("#feed li").first).to_be_visible(timeout=30_000)
    wait_for(lambda: len(told(stack, run)) == 4, 120, "four told nodes")
    expect(page.locator("#evidence")).to_contain_text("4")
    assert page.evaluate("() => window.stayed") is True, "the page was reloaded"

    best = next(n for n in told(stack, run) if page.request.get(f"{stack.address}/s/{run}/n/{n}/kernel.py").ok)
    page.goto(f"{stack.address}/s/{run}/n/{best}/")
    expect(page.locator("#node-title")).to_contain_text(f"Node {best}")
    page.get_by_role("link", name="Source").first.click()
    expect(page.locator("#node-panel")).to_contain_text("ModelNew")

    archive = page.request.get(f"{stack.address}/s/{run}/n/{best}/proof.zip")
    assert archive.ok
    with zipfile.ZipFile(io.BytesIO(archive.body())) as bundle:
        bundle.extractall(tmp_path)
    repro = next(tmp_path.rglob("repro.py"))
    done = subprocess.run([sys.executable, repro.name], cwd=repro.parent, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_run_survives_the_death_of_worker_and_web_server(page: Page, stack: Stack, faults: Faults) -> None:
    run = start_sample(page, stack, 8)
    wait_for(lambda: len(told(stack, run)) >= 2, 90, "two told nodes")
    stack.kill("-Q device.interpreter")
    stack.kill("adaexplore_site.operations.web")
    stack.kill("-Q io")
    wait_for(lambda: len(told(stack, run)) == 8, 180, "all eight nodes")
    assert told(stack, run) == list(range(1, 9))
    wait_for(lambda: "finished" in page.locator("#cockpit").inner_text().lower(), 45, "the page to say finished")
    faults.forgive(*SERVER_AWAY)


def test_ctrl_c_stops_everything_and_the_next_start_goes_on(page: Page, stack: Stack, faults: Faults) -> None:
    run = start_sample(page, stack, 6)
    wait_for(lambda: len(told(stack, run)) >= 1, 90, "a told node")
    assert stack.stop() == 0
    assert stack.leftovers() == []
    done = len(told(stack, run))
    stack.start()
    wait_for(lambda: len(told(stack, run)) == 6, 120, f"the rest of the run (it had {done})")
    assert told(stack, run) == list(range(1, 7))
    faults.forgive(*SERVER_AWAY)
