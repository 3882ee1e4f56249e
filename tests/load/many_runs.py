"""Fifty searches at once on one machine: steps a second, how busy the I/O worker is, and how long pages take.

Run by hand: python -m tests.load.many_runs [runs] [seconds]. Starts `manage.py up` in a folder of its own with the
proposer and bench of tests/faults/site.py. The load generator shares the
cores. Set DATABASE_URL for PostgreSQL.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
import urllib.request
from pathlib import Path

from tests.browser.stack import Stack, environment, free_port
from tests.load.sockets import sign_in

THREADS = 8  # of the I/O worker, the default of `manage.py up`
GAP_S = 0.25  # between two pages
TICKS = os.sysconf("SC_CLK_TCK")


def pages(runs: list[int]) -> list[str]:
    """What people look at: the list, a cockpit, its snapshot, what came since."""
    one = runs[len(runs) // 2]
    return ["/", f"/s/{one}/", f"/s/{one}/snapshot", f"/s/{one}/events?since=1", f"/s/{one}/n/1/"]


def look(address: str, cookie: str, paths: list[str], seconds: float) -> dict[str, list[float]]:
    """Milliseconds of each page, asked one after the other for this long."""
    times: dict[str, list[float]] = {path: [] for path in paths}
    end, place = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        path = paths[place % len(paths)]
        request = urllib.request.Request(address + path, headers={"Cookie": cookie})
        begun = time.monotonic()
        with urllib.request.urlopen(request, timeout=30) as answer:
            answer.read()
        times[path].append(1000 * (time.monotonic() - begun))
        place += 1
        time.sleep(GAP_S)
    return times


def cpu_s(pids: list[int]) -> float:
    """Processor seconds that these processes have used."""
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def machine_s() -> float:
    """Processor seconds that the whole machine has worked since it started."""
    user, nice, system = Path("/proc/stat").read_text().split()[1:4]
    return (int(user) + int(nice) + int(system)) / TICKS


def share(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


def measure(stack: Stack, count: int, seconds: float, think_s: float) -> None:
    from django.contrib.auth.models import User

    from search.records.models import Node
    from tests.browser.live import NAME, PASSWORD
    from tests.faults.searches import start

    User.objects.create_superuser(NAME, password=PASSWORD)
    cookie = sign_in(stack.address)
    runs = [start(place=4 * k, steps=5000, concurrency=4) for k in range(count)]
    time.sleep(10)  # the searches find their pace
    parts = {"web": "operations.web", "io": "io@%h", "judge": "interpreter@%h", "broker": "valkey"}
    before = {name: cpu_s(stack.pids(part)) for name, part in parts.items()}
    told = Node.objects.filter(state=Node.State.COMPLETED).exclude(kind=Node.Kind.ROOT)
    asked = told.model.objects.exclude(kind=Node.Kind.ROOT).exclude(source_hash="", reason="")
    busy, mine = machine_s(), cpu_s([os.getpid()])
    steps, replies, begun = told.count(), asked.count(), time.monotonic()
    times = look(stack.address, cookie, pages(runs), seconds)
    took = time.monotonic() - begun
    steps, replies = told.count() - steps, asked.count() - replies
    busy, mine = (machine_s() - busy) / took, (cpu_s([os.getpid()]) - mine) / took
    used = {name: (cpu_s(stack.pids(part)) - before[name]) / took for name, part in parts.items()}
    every = [value for values in times.values() for value in values]
    print(f"{count} searches, {took:.0f} s: {steps / took:.1f} steps told a second", end="")
    print(f", I/O threads busy {replies * think_s / THREADS / took:.0%} of the time with proposals")
    print("cores: " + ", ".join(f"{name} {value:.2f}" for name, value in used.items()), end="")
    print(f", load generator {mine:.2f}, others on this machine {busy - mine - sum(used.values()):.2f}")
    for path, values in times.items():
        print(f"{path:22} n={len(values)} p50 {statistics.median(values):.0f} ms, p95 {share(values, 0.95):.0f} ms")
    print(
        f"all pages              n={len(every)} p50 {statistics.median(every):.0f} ms, p95 {share(every, 0.95):.0f} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=int, nargs="?", default=50)
    parser.add_argument("seconds", type=float, nargs="?", default=60)
    parser.add_argument("--think", type=float, default=1.0, help="seconds a reply of the proposer takes, on average")
    parser.add_argument("--judge", type=float, default=0.05, help="seconds an evaluation takes, on average")
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="adaexplore-load-"))
    extra = {
        "DJANGO_SETTINGS_MODULE": "tests.faults.site",
        "DATABASE_URL": os.environ.get("DATABASE_URL", ""),
        "QUICK_THINK_S": str(given.think),
        "QUICK_JUDGE_S": str(given.judge),
    }
    os.environ.update(environment(folder, free_port(), **extra))
    stack = Stack(folder, **extra).start()
    try:
        import django

        django.setup()
        measure(stack, given.runs, given.seconds, given.think)
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
