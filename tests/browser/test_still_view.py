"""Minutes of growth under a reader's eyes: nothing moves that they did not move. `STILL_MINUTES` says how long."""

from __future__ import annotations

import os
import time
from typing import Any

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.live import LiveStack
from tests.browser.test_disconnects import Growth

pytestmark = pytest.mark.browser
SECONDS = 60 * float(os.environ.get("STILL_MINUTES", "0.15"))
# In every animation frame: what belongs to the reader, and whether it was ever another than at first. `shift` is the
# cumulative layout shift: the worst sum within five seconds of shifts less than a second apart.
WATCH = """() => {
  const tree = window.cockpitTree;
  const feed = document.getElementById("feed");
  const line = feed.children[3];
  const box = (element) => { const { x, y } = element.getBoundingClientRect(); return [Math.round(x), Math.round(y)]; };
  const look = () => ({
    scroll: [scrollX, scrollY, document.getElementById("drawer-body").scrollTop],
    line: line.offsetTop - feed.scrollTop,
    zoom: [tree.view.sx, tree.view.sy],
    node: Object.values(tree.screen(tree.places.get(tree.selected))).map(Math.round),
    selected: tree.selected,
    focus: document.activeElement.id || document.activeElement.name || document.activeElement.tagName,
    typed: document.activeElement.value,
    marked: [document.activeElement.selectionStart, document.activeElement.selectionEnd],
    drawer: document.getElementById("drawer-title").textContent,
    field: box(document.activeElement),
    address: location.href,
  });
  const first = look();
  window.still = { frames: 0, moved: {}, shift: 0, longest: 0 };
  let [start, end, sum] = [0, 0, 0];
  new PerformanceObserver((list) => {
    for (const entry of list.getEntries()) {
      if (entry.hadRecentInput) continue;
      if (entry.startTime - end > 1000 || entry.startTime - start > 5000) [start, sum] = [entry.startTime, 0];
      end = entry.startTime;
      sum += entry.value;
      window.still.shift = Math.max(window.still.shift, sum);
    }
  }).observe({ type: "layout-shift" });
  let before = performance.now();
  const frame = (now) => {
    const shown = look();
    window.still.frames += 1;
    window.still.longest = Math.max(window.still.longest, now - before);
    before = now;
    for (const key of Object.keys(first)) {
      if (JSON.stringify(shown[key]) !== JSON.stringify(first[key])) window.still.moved[key] = [first[key], shown[key]];
    }
    requestAnimationFrame(frame);
  };
  requestAnimationFrame(frame);
}"""


def test_growth_moves_neither_view_nor_selection_nor_focus_nor_scroll(browser: Browser, live_stack: LiveStack) -> None:
    run = live_stack.write("run", steps=5000)["run"]
    live_stack.write("grow", run=run, count=30)
    live_stack.write("grow", run=run, count=10, parent=1)
    context = live_stack.sign_in(browser, viewport={"width": 1400, "height": 700})
    page = context.new_page()
    page.goto(f"{live_stack.address}/s/{run}/?n=4")
    expect(page.locator("#live")).to_have_attribute("data-state", "live")
    expect(page.locator("#drawer-title")).to_have_text("Node 4")
    page.get_by_role("button", name="Zoom in").click()
    drawer = page.locator("#drawer")
    drawer.get_by_text("Note to the steps below").click()
    note = drawer.locator("textarea[name=text]")
    note.fill("half a thought about tiles")
    note.select_text()
    page.evaluate("() => { document.getElementById('feed').scrollTop = 60; scrollBy(0, 40) }")
    page.wait_for_timeout(500)  # easing and scrolling are over
    growth = Growth(live_stack, run)
    told = int(page.locator("#cockpit").get_attribute("data-told") or 0)
    page.evaluate(WATCH)
    begun = time.monotonic()
    growth.start()
    while time.monotonic() - begun < SECONDS:
        page.wait_for_timeout(min(1000, 1000 * SECONDS))
    growth.end()
    truth = live_stack.write("truth", run=run)
    expect(page.locator("#cockpit")).to_have_attribute("data-told", str(truth["told"]))
    found: dict[str, Any] = page.evaluate("() => window.still")
    said = f"{truth['told'] - told} nodes in {time.monotonic() - begun:.0f} s, {found['frames']} frames looked at"
    print(f"{said}, moved {found['moved']}, layout shift {found['shift']:.4f}")  # noqa: T201
    assert truth["told"] > told and found["frames"] > 10
    assert found["moved"] == {}
    assert found["shift"] <= 0.02
    context.close()
