"""Hundreds of cut connections while a search grows: no line lost, doubled or out of order; `CUTS` says how many."""

from __future__ import annotations

import itertools
import os
import random
import threading
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.cutter import ABNORMAL, Cutter, cutting
from tests.browser.live import LiveStack
from tests.browser.stack import wait_for
from tests.browser.watch import SERVER_AWAY, Faults

pytestmark = pytest.mark.browser
CUTS = int(os.environ.get("CUTS", "200"))
CODES = (1001, ABNORMAL, 1012)
TABS = 8
# Redial after the shortest delay there is, and keep the number of every line in the order in which it was put in.
RECORD = """
  Math.random = () => 0;
  window.lines = [];
  document.addEventListener("DOMContentLoaded", () => {
    const feed = document.getElementById("feed");
    if (!feed) return;
    window.lines = [...feed.children].map((line) => Number(line.dataset.seq)).reverse();
    new MutationObserver((changes) => {
      const added = changes.flatMap((change) => [...change.addedNodes]);
      window.lines.push(...added.filter((line) => line.dataset).map((line) => Number(line.dataset.seq)));
    }).observe(feed, { childList: true });
  });
"""
DIFFERENT = """(columns) => {
  const { by, nodes } = window.cockpitTree.scene;
  const wrong = nodes.length === columns.n.length ? [] : [`${nodes.length} nodes, not ${columns.n.length}`];
  columns.n.forEach((n, at) => {
    for (const key of Object.keys(columns)) {
      const [shown, stored] = [JSON.stringify(by.get(n)?.[key]), JSON.stringify(columns[key][at])];
      // A snapshot has fewer digits.
      const near = ["lo", "hi"].includes(key) && Math.abs(shown - stored) < 1e-4 * stored;
      if (shown !== stored && !near) wrong.push(`node ${n}, ${key}: ${shown}, not ${stored}`);
    }
  });
  return wrong;
}"""


BEHIND = 60  # nodes that a tab may miss: of what it missed it gets the newest hundred lines, since it shows no more


class Growth(threading.Thread):
    """Nodes until told to stop, written beside the test as the workers would; at most `most` of them."""

    def __init__(self, stack: LiveStack, run: int) -> None:
        super().__init__(daemon=True)
        self.stack, self.run_id, self.parents = stack, run, itertools.cycle((0, 1, 2))
        self.enough = threading.Event()
        self.written, self.most = 3, BEHIND

    def run(self) -> None:
        self.stack.write("grow", run=self.run_id, count=3)
        while not self.enough.is_set():
            if self.written < self.most:
                self.stack.write("grow", run=self.run_id, count=1, parent=next(self.parents))
                self.written += 1
            self.enough.wait(0.15)

    def end(self) -> None:
        self.enough.set()
        self.join(20)


def tab(browser_context: Any, cutter: Cutter, run: int, query: str) -> Page:
    page = browser_context.new_page()
    page.goto(f"{cutter.address}/s/{run}/{query}")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    return page  # type: ignore[no-any-return]


def cut_often(cutter: Cutter, stack: LiveStack, tabs: list[Page], growth: Growth) -> int:
    """Cut every open socket again and again, each round by another code; twice the server itself is killed."""
    dice, codes, done = random.Random(7), itertools.cycle(CODES), 0
    restarts = [CUTS // 3, 2 * CUTS // 3]
    while done < CUTS:
        wait_for(lambda: cutter.open >= TABS - 1, 30, "the tabs to dial again")
        growth.most = BEHIND + min(int(page.locator("#cockpit").get_attribute("data-told") or 0) for page in tabs)
        threading.Event().wait(dice.uniform(0.02, 0.3))  # at any moment, also while a frame is on its way
        if restarts and done >= restarts[0]:
            restarts.pop(0)
            done += cutter.open
            stack.kill_web()
            stack.start_web()
        else:
            done += cutter.cut(next(codes))
    return done


def test_cuts_of_every_sort_lose_double_and_reorder_nothing(
    browser: Browser, live_stack: LiveStack, faults: Faults
) -> None:
    faults.forgive(*SERVER_AWAY, "failed: net::ERR_", "Failed to load resource: net::ERR_")
    run = live_stack.write("run", steps=3000)["run"]
    context = live_stack.sign_in(browser)
    context.add_init_script(RECORD)
    growth = Growth(live_stack, run)
    with cutting(live_stack.port) as cutter:
        tabs = [tab(context, cutter, run, "?tab=table" if k == 0 else "") for k in range(TABS)]
        growth.start()
        try:
            done = cut_often(cutter, live_stack, tabs, growth)
        finally:
            growth.end()
        truth = live_stack.write("truth", run=run)
        print(f"{done} cuts, {truth['told']} nodes, {len(truth['lines'])} lines in each of {TABS} tabs")  # noqa: T201
        for page in tabs:
            expect(page.locator("#cockpit")).to_have_attribute("data-told", str(truth["told"]))
            expect(page.locator("#live")).to_have_attribute("data-state", "live")
            assert page.evaluate("() => window.lines") == truth["lines"]
            stored = page.request.get(f"{live_stack.address}/s/{run}/snapshot").json()["nodes"]
            assert [stored["n"], stored["p"], stored["o"]] == [truth["numbers"], truth["parents"], truth["orders"]]
            assert page.evaluate(DIFFERENT, stored) == []
        rows = tabs[0].locator("#grid-body tr").evaluate_all("(rows) => rows.map((row) => Number(row.dataset.number))")
        assert len(rows) == len(set(rows)) == min(len(truth["numbers"]), 200)
    context.close()
