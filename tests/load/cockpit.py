"""How fast the cockpit is: frames and appends of a large tree, weights, commit to pixels, pages. Run by hand:

    python -m tests.load.cockpit [tree] [pixels] [pages]      # all three without a name

Starts its own Daphne, channel server, database and Chromium. The load generator shares the cores with them.
"""

from __future__ import annotations

import argparse
import asyncio
import gzip
import json
import os
import platform
import statistics
import tempfile
import threading
import time
import urllib.request
from pathlib import Path

from playwright.sync_api import Browser, Page, Response

from tests.browser.chromium import launched
from tests.browser.live import LiveStack
from tests.load import sockets

NODES, APPENDS, FRAMES = 10_000, 40, 150
VIEWERS = (50, 500)
# Each message's time in the page's own code, and when the picture that followed it was drawn.
TIMER = """
  window.applied = []; window.painted = [];
  const door = Object.getOwnPropertyDescriptor(WebSocket.prototype, "onmessage");
  Object.defineProperty(WebSocket.prototype, "onmessage", { ...door, set(handler) {
    door.set.call(this, handler && ((event) => {
      const begun = performance.now();
      handler.call(this, event);
      const took = performance.now() - begun;
      const message = JSON.parse(event.data);
      if (message.type !== "frame") return;
      requestAnimationFrame(() => requestAnimationFrame(() => window.painted.push([message.to, Date.now()])));
      window.applied.push([message.to, took]);
    }));
  } });
"""
PAN = """async (frames) => {
  const tree = window.cockpitTree;
  const paints = [], intervals = [];
  const paint = tree.paint.bind(tree);
  tree.paint = () => { const begun = performance.now(); paint(); paints.push(performance.now() - begun); };
  let before = await new Promise(requestAnimationFrame);
  for (let k = 0; k < frames; k += 1) {
    tree.pan(k % 40 < 20 ? 3 : -3, 1);
    const now = await new Promise(requestAnimationFrame);
    intervals.push(now - before);
    before = now;
  }
  delete tree.paint;
  return { paints, intervals };
}"""
FIRST_PAINTS = """() => {
  window.paints = [];
  const tree = window.cockpitTree;
  const paint = tree.paint.bind(tree);
  tree.paint = () => {
    const begun = performance.now();
    paint();
    window.paints.push([begun, performance.now() - begun]);
  };
}"""


def share(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def say(what: str, values: list[float]) -> None:
    print(
        f"{what}: n={len(values)} p50 {statistics.median(values):.1f} ms, p95 {share(values, 0.95):.1f} ms, "
        f"most {max(values):.1f} ms, load {os.getloadavg()[0]:.1f}"
    )


def opened(browser: Browser, stack: LiveStack, run: int) -> tuple[Page, list[Response]]:
    context = stack.sign_in(browser, viewport={"width": 1400, "height": 900})
    context.add_init_script(TIMER)
    page = context.new_page()
    answers: list[Response] = []
    page.on("response", lambda answer: answers.append(answer))
    page.goto(f"{stack.address}/s/{run}/")
    page.wait_for_function("() => document.getElementById('live').dataset.state === 'live'", timeout=60_000)
    page.wait_for_timeout(1000)
    return page, answers


def tree(browser: Browser, stack: LiveStack) -> None:
    """Weight, snapshot, frames while panning over all of it and over a part, appends."""
    run = stack.write("forest", nodes=NODES)["run"]
    begun = time.monotonic()
    page, answers = opened(browser, stack, run)
    print(f"{NODES} nodes: open and live after {time.monotonic() - begun - 1:.1f} s")
    weights = {
        answer.url.removeprefix(stack.address): len(gzip.compress(answer.body(), 6))
        for answer in answers
        if answer.ok and answer.url.startswith(stack.address)
    }
    snapshot = next(size for path, size in weights.items() if "/snapshot" in path)
    print(f"snapshot {snapshot / 1000:.0f} kB gzip; everything else {(sum(weights.values()) - snapshot) / 1000:.0f} kB")
    for where, act in (("all of the tree in sight", "fit"), ("a part in sight", "best")):
        page.locator(f"#tree-tools [data-do={act}]").click()
        if act == "fit":
            page.evaluate("() => { const v = cockpitTree.view; v.sy = 0.6; v.ty = 40; cockpitTree.draw() }")
        page.wait_for_timeout(500)
        found = page.evaluate(PAN, FRAMES)
        say(f"frame to frame, {where}", found["intervals"])
        say(f"one drawing, {where}", found["paints"])
        appends(page, stack, run, where)
    page.context.close()


def appends(page: Page, stack: LiveStack, run: int, where: str) -> None:
    """One node at a time: the page's own work for the message, and the drawing after it."""
    page.evaluate("() => { window.applied.length = 0 }")
    page.evaluate(FIRST_PAINTS)
    for _ in range(APPENDS):
        stack.write("grow", run=run, count=1, parent=NODES // 2)
        page.wait_for_timeout(260)
    page.wait_for_timeout(500)
    say(f"append, the page's work, {where}", [took for _, took in page.evaluate("() => window.applied")])
    say(f"append, each drawing after it, {where}", [took for _, took in page.evaluate("() => window.paints")])
    page.evaluate("() => { delete cockpitTree.paint }")


def pixels(browser: Browser, stack: LiveStack, viewers: int) -> None:
    """From the writer's commit to the frame in which a browser shows it, beside so many sockets."""
    nodes, gap_s = 40, 0.4
    run = stack.write("run", steps=nodes)["run"]
    page, _ = opened(browser, stack, run)
    times: dict[int, float] = {}
    crowd = threading.Thread(
        target=lambda: times.update(asyncio.run(sockets.measure(stack, viewers - 1, nodes, gap_s, run)))
    )
    crowd.start()
    while crowd.is_alive():
        page.wait_for_timeout(200)
    page.wait_for_timeout(500)
    shown = page.evaluate("() => window.painted")
    delays = [min(at for to, at in shown if to >= seq) - 1000 * at_s for seq, at_s in times.items()]
    say(f"commit to pixels, {viewers} viewers", delays)
    page.context.close()


def pages(stack: LiveStack) -> None:
    """The list of many searches."""
    stack.write("many_runs", count=10_000)
    cookie = sockets.sign_in(stack.address)
    for path in ("/", "/?state=ended", "/?q=relu"):
        took = []
        for _ in range(12):
            begun = time.monotonic()
            request = urllib.request.Request(stack.address + path, headers={"Cookie": cookie})
            urllib.request.urlopen(request, timeout=60).read()
            took.append(1000 * (time.monotonic() - begun))
        print(f"first {took[0]:.0f} ms;", end=" ")
        say(f"{path} with 10,000 searches", took[1:])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=["tree", "pixels", "pages", []], default=[])
    given = parser.parse_args().parts or ["tree", "pixels", "pages"]
    print(json.dumps({"cores": os.cpu_count(), "python": platform.python_version(), "load": os.getloadavg()[0]}))
    with tempfile.TemporaryDirectory(prefix="adaexplore-load-") as folder, launched() as browser:
        print(f"Chromium {browser.version}")
        stack = LiveStack(Path(folder) / "data")
        stack.start()
        try:
            if "tree" in given:
                tree(browser, stack)
            for viewers in VIEWERS if "pixels" in given else ():
                pixels(browser, stack, viewers)
            if "pages" in given:
                pages(stack)
        finally:
            stack.stop()


if __name__ == "__main__":
    main()
