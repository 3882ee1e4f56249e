"""How long the list of searches and the pages beside it take with many searches: python -m tests.load.home [searches].

Run by hand. Fills a database of its own and asks Django's test client, so a page's time is all the work on the server
without the network. Set DATABASE_URL for PostgreSQL (an empty database: rows stay in it).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.browser.stack import environment, free_port

if TYPE_CHECKING:
    from django.test import Client

NODES = 8  # of each search, beside the root
TIMES = 15  # each page is asked so often
TOGETHER = 500  # rows of one insert
PAGES = (
    "/",
    "/?state=running",
    "/?state=ended&sort=oldest",
    "/?sort=problem",
    "/?q=softmax",
    "/?q=nothing+is+called+so",
    "/?device=interpreter",
    "/notifications/",
    "/activity/",
    "/activity/?verb=run.pause",
    "/find/names?q=softmax",
    "/settings/",
)


def fill(count: int) -> None:
    """Searches of a few nodes on fifty problems, an act and a paid call on each; every tenth runs."""
    from django.utils import timezone

    from adaexplore_site.core.models import AuditEntry
    from search.ledger.models import Spending
    from search.records.models import Node, Proposal, Run, RunEvent
    from tests.search.makers import make_device, make_problem

    device, problems = make_device(), [make_problem(f"row-softmax-{place}") for place in range(50)]
    now = timezone.now()
    runs = many(
        Run,
        (
            Run(
                problem=problems[place % len(problems)],
                device=device,
                proposer="builtin",
                title=f"search number {place}",
                state="running" if place % 10 == 0 else "finished",
                steps=NODES,
                event_seq=NODES + 1,
            )
            for place in range(count)
        ),
    )
    roots = many(Node, (Node(run=run, number=0, kind="root", state="told", told_order=0) for run in runs))
    verdicts = evaluations(problems[0], device)
    nodes = many(
        Node,
        (
            Node(
                run=run,
                number=number,
                parent=root,
                kind="large",
                state="told",
                told_order=number,
                told_at=now,
                evaluation=verdicts[number % len(verdicts)],
            )
            for run, root in zip(runs, roots, strict=True)
            for number in range(1, NODES + 1)
        ),
    )
    many(RunEvent, (RunEvent(run=run, seq=1, kind="run.started") for run in runs))
    best = {"number": 1, "order": 1, "speedup": 2.0, "evaluation": verdicts[0].pk}
    many(RunEvent, (RunEvent(run=run, seq=2, kind="node.best", payload=best) for run in runs))
    many(Proposal, (Proposal(node=node, proposer="openai", model="big", price_usd="0.01") for node in nodes[::NODES]))
    paid = {"day": now.date(), "model": "big", "kind": "large", "calls": 1, "usd": "0.01"}
    many(Spending, (Spending(run=run, **paid) for run in runs))
    many(AuditEntry, (AuditEntry(verb="run.pause", object_type="run", object_id=str(run.pk)) for run in runs))


def evaluations(problem: Any, device: Any) -> list[Any]:
    """A few verdicts with a speedup and its interval."""
    from judge.evaluations.models import Evaluation

    return [
        Evaluation.objects.create(
            problem=problem,
            device=device,
            candidate_hash=f"{place:064d}",
            protocol="judge/1",
            verdict="pass",
            speedup=1 + place,
            speedup_low=0.9 + place,
            speedup_high=1.1 + place,
            speedup_n=7,
            basis="modelled",
        )
        for place in range(4)
    ]


def many(model: Any, rows: Iterator[Any]) -> list[Any]:
    """Insert rows together; with their numbers."""
    made: list[Any] = []
    while part := list(islice(rows, TOGETHER)):
        made += model.objects.bulk_create(part)
    return made


def measure(client: Client, path: str) -> str:
    """A line with median and p95 of one page."""
    assert client.get(path).status_code == 200, path
    spent = []
    for _ in range(TIMES):
        begun = time.perf_counter()
        client.get(path)
        spent.append(1000 * (time.perf_counter() - begun))
    spent.sort()
    p95 = spent[min(len(spent) - 1, int(0.95 * len(spent)))]
    return f"{path:32} p50 {statistics.median(spent):4.0f} ms  p95 {p95:4.0f} ms"


def bar() -> tuple[float, float]:
    """Median milliseconds that the bar's figures, and its bell, take when none are kept."""
    from django.utils import timezone

    from adaexplore_site.notifications.services import notices_count
    from adaexplore_site.palette.shell_figures import figures_read

    now = timezone.now()
    day = now - timedelta(days=1)
    return (
        median_ms(lambda: figures_read(now)),
        median_ms(lambda: notices_count(day, now=now, reviewer=True)),
    )


def median_ms(read: Callable[[], object]) -> float:
    from django.core.cache import cache

    spent = []
    for _ in range(TIMES):
        cache.clear()
        begun = time.perf_counter()
        read()
        spent.append(1000 * (time.perf_counter() - begun))
    return statistics.median(spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("searches", type=int, nargs="?", default=10_000)
    given = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="adaexplore-home-"))
    os.environ.update(environment(folder, free_port(), ALLOWED_HOSTS="testserver", LOG_LEVEL="WARNING"))
    os.environ["DJANGO_SETTINGS_MODULE"] = "adaexplore_site.settings"
    try:
        import django

        django.setup()
        from django.contrib.auth.models import User
        from django.core.management import call_command
        from django.test import Client

        call_command("migrate", verbosity=0)
        begun = time.monotonic()
        fill(given.searches)
        print(f"{given.searches} searches of {NODES} nodes, filled in {time.monotonic() - begun:.0f} s")
        client = Client()
        client.force_login(
            User.objects.create_superuser("measure"), backend="django.contrib.auth.backends.ModelBackend"
        )
        for path in PAGES:
            print(measure(client, path), flush=True)
        figures, bell = bar()
        print(f"figures of the bar, not kept     {figures:4.1f} ms, its bell {bell:4.1f} ms")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
