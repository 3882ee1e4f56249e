"""One storm: four searches at a time with eight steps in flight each, and something is killed every few seconds.

Started by `tests.faults` with a data folder of its own and, for PostgreSQL, DATABASE_URL.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.browser.stack import Stack, environment, free_port

PARTS = {"io": "io@%h", "judge": "interpreter@%h", "broker": "valkey", "web": "operations.web", "beat": "beat"}
WEIGHTS = {"io": 4, "judge": 4, "broker": 2, "web": 2, "beat": 1}
QUIET_S = 120.0  # after the last kill every run must end within this


class Storm:
    """Kills, rounds of searches, and the figures of both."""

    def __init__(self, stack: Stack, *, seconds: float, gap_s: float, steps: int, rng: random.Random) -> None:
        self.stack, self.seconds, self.gap_s, self.steps, self.rng = stack, seconds, gap_s, steps, rng
        self.kills: Counter[str] = Counter()
        self.runs: list[int] = []
        self.begun = time.monotonic()

    def blow(self) -> None:
        """Kill until the time is over; start four more searches whenever fewer than four are running."""
        next_kill = time.monotonic() + self.gap_s
        while time.monotonic() - self.begun < self.seconds:
            self._keep_four()
            if time.monotonic() >= next_kill:
                self._kill()
                next_kill = time.monotonic() + self.rng.uniform(0.5, 1.5) * self.gap_s
            time.sleep(0.2)

    def settle(self) -> bool:
        """Wait for the last runs; False when they do not end."""
        deadline = time.monotonic() + QUIET_S
        while time.monotonic() < deadline:
            if not _open_runs():
                return True
            time.sleep(0.5)
        return False

    def _keep_four(self) -> None:
        from tests.faults.searches import start

        for _ in range(4 - len(_open_runs())):
            self.runs.append(start(place=len(self.runs), steps=self.steps))

    def _kill(self) -> None:
        name = self.rng.choices(list(WEIGHTS), weights=list(WEIGHTS.values()))[0]
        for pid in self.stack.pids(PARTS[name]):
            try:
                os.kill(pid, signal.SIGKILL)
                self.kills[name] += 1
            except ProcessLookupError:
                continue


def _open_runs() -> list[int]:
    from search.records.models import Run

    return list(Run.objects.exclude(state__in=Run.ENDED).values_list("pk", flat=True))


def report(storm: Storm, settled: bool) -> dict[str, object]:
    """The figures, and everything that is wrong."""
    from django.db import connection

    from search.records.models import Node, Run, RunEvent
    from tests.faults.checks import doubles, faults_of

    runs = list(Run.objects.select_related("problem", "device").order_by("pk"))
    wrong = [text for run in runs for text in faults_of(run)] + doubles()
    if not settled:
        wrong.append(f"runs {_open_runs()} did not end within {QUIET_S:.0f} s after the last kill")
    told = Node.objects.filter(state=Node.State.COMPLETED).exclude(kind=Node.Kind.ROOT)
    return {
        "database": connection.vendor,
        "seconds": round(time.monotonic() - storm.begun),
        "kills": dict(storm.kills),
        "runs": len(runs),
        "told": told.count(),
        "reused": told.filter(reused=True).count(),
        "leases_expired": RunEvent.objects.filter(kind="lease.expired").count(),
        "events": RunEvent.objects.count(),
        "wrong": wrong,
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--gap", type=float, default=5.0, help="seconds between two kills, on average")
    parser.add_argument("--steps", type=int, default=150, help="budget of a search")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="adaexplore-storm-"))
    extra = {"DJANGO_SETTINGS_MODULE": "tests.faults.site", "DATABASE_URL": os.environ.get("DATABASE_URL", "")}
    os.environ.update(environment(folder, free_port(), **extra))
    stack = Stack(folder, **extra)
    stack.start()
    try:
        import django

        django.setup()
        rng = random.Random(given.seed)
        storm = Storm(stack, seconds=given.seconds, gap_s=given.gap, steps=given.steps, rng=rng)
        storm.blow()
        figures = report(storm, storm.settle())
        print(json.dumps(figures, indent=1))
        for log in (folder / "logs").glob("*.log") if figures["wrong"] else ():
            print(
                f"== {log.name} ==\n" + "\n".join(log.read_text(errors="replace").splitlines()[-15:]), file=sys.stderr
            )
        return 1 if figures["wrong"] else 0
    finally:
        stack.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
