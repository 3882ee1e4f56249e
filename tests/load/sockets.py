"""Many sockets on one run: time from commit to message. Run by hand: python -m tests.load.sockets [sockets] [nodes].

Starts its own Daphne, channel server and database in a temporary folder. The load generator shares the cores with them.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path

from websockets.asyncio.client import connect

from tests.browser.live import NAME, PASSWORD, LiveStack


def sign_in(address: str) -> str:
    """The session cookie as a header value."""
    jar = CookieJar()
    opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(jar))
    page = opener.open(address + "/sign-in/").read().decode()
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page)
    assert found, "the sign-in page has no token"
    fields = {"csrfmiddlewaretoken": found.group(1), "username": NAME, "password": PASSWORD}
    request = urllib.request.Request(address + "/sign-in/", urllib.parse.urlencode(fields).encode())
    request.add_header("Referer", address)
    opener.open(request)
    return "; ".join(f"{cookie.name}={cookie.value}" for cookie in jar)


async def watch(url: str, cookie: str, origin: str, until: int, seen: dict[int, float], ready: asyncio.Event) -> int:
    """Read frames until event `until`; `seen[seq]` is when the frame that first covered it came. Returns gaps met."""
    last = gaps = 0
    async with connect(url, additional_headers={"Cookie": cookie}, origin=origin, max_size=None) as line:  # type: ignore[arg-type]
        async for text in line:
            message = json.loads(text)
            if message["type"] == "hello":
                ready.set()
            if message["type"] != "frame":
                continue
            now = time.time()
            gaps += message["from"] > last
            for seq in range(last + 1, message["to"] + 1):
                seen[seq] = now
            last = max(last, message["to"])
            await line.send(json.dumps({"type": "ack", "to": last}))
            if last >= until:
                return gaps
    return gaps


def commits(stack: LiveStack, run: int, nodes: int, gap_s: float) -> dict[int, float]:
    """Write `nodes` nodes; the newest event number after each commit and when the writer had it."""
    times: dict[int, float] = {}
    for _ in range(nodes):
        answer = stack.write("grow", run=run)
        times[answer["head"]] = answer["at"]
        time.sleep(gap_s)
    return times


async def measure(stack: LiveStack, sockets: int, nodes: int, gap_s: float, run: int | None = None) -> dict[int, float]:
    """Print the delays; returns when each event was committed, by number. A new run unless one is given."""
    run = run or stack.write("run", steps=nodes)["run"]
    cookie = await asyncio.to_thread(sign_in, stack.address)
    url = f"ws://127.0.0.1:{stack.port}/ws/run/{run}?since=0&v=1"
    until = 1 + 3 * nodes  # the run's start, then reserved, told and best for each node
    seen: list[dict[int, float]] = [{} for _ in range(sockets)]
    ready = [asyncio.Event() for _ in range(sockets)]
    lines = [
        asyncio.create_task(watch(url, cookie, stack.address, until, s, r)) for s, r in zip(seen, ready, strict=True)
    ]
    await asyncio.gather(*(event.wait() for event in ready))
    times = await asyncio.to_thread(commits, stack, run, nodes, gap_s)
    gaps = sum(await asyncio.wait_for(asyncio.gather(*lines), 60))
    delays = sorted(1000 * (one[seq] - at) for one in seen for seq, at in times.items() if seq in one)
    expected = sockets * len(times)

    def share(part: float) -> float:
        return delays[min(len(delays) - 1, int(part * len(delays)))]

    say = sys.stdout.write
    say(f"{sockets} sockets, {nodes} nodes, one every {gap_s} s: ")
    say(f"{len(delays)} of {expected} deliveries, {gaps} gaps\n")
    say(f"commit -> message: p50 {share(0.5):.0f} ms, p95 {share(0.95):.0f} ms, p99 {share(0.99):.0f} ms\n")
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sockets", type=int, nargs="?", default=30)
    parser.add_argument("nodes", type=int, nargs="?", default=60)
    parser.add_argument("--gap", type=float, default=0.4, help="seconds between two nodes")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="adaexplore-load-") as folder:
        stack = LiveStack(Path(folder) / "data")
        stack.start()
        try:
            asyncio.run(measure(stack, given.sockets, given.nodes, given.gap))
        finally:
            stack.stop()


if __name__ == "__main__":
    main()
