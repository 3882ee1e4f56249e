"""How long the page of spending takes with many calls: `python -m tests.load.spend [calls]`, a folder of its own.

Set DATABASE_URL for PostgreSQL. Prompts, replies, sources and reports are as long as in real searches.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time

KB = 1024


def fill(calls: int) -> None:
    """Searches of 500 steps, each with one billed call and one judged kernel."""
    from django.utils import timezone

    from judge.evaluations.models import Evaluation
    from search.records.models import Node, Proposal, Run
    from tests.search.makers import make_device, make_problem

    device, problem, now = make_device(), make_problem(), timezone.now()
    for _ in range(calls // 500):
        run = Run.objects.create(problem=problem, device=device, proposer="openai", steps=500, state="finished")
        root = Node.objects.create(run=run, number=0, kind="root", state="told", told_order=0, told_at=now)
        judged = Evaluation.objects.bulk_create(
            Evaluation(
                problem=problem,
                device=device,
                candidate_hash=f"{run.pk}-{number}",
                source="x" * 3 * KB,
                protocol="p",
                toolchain="t",
                verdict="wrong",
                stage="correctness",
                report={"log": "y" * 4 * KB},
                wall_ms=1500.0,
            )
            for number in range(1, 501)
        )
        nodes = Node.objects.bulk_create(
            Node(
                run=run,
                number=number,
                parent=root,
                kind="large" if number % 3 else "small",
                state="told",
                told_order=number,
                told_at=now,
                evaluation=judged[number - 1],
                source="x" * 3 * KB,
            )
            for number in range(1, 501)
        )
        Proposal.objects.bulk_create(
            Proposal(
                node=node,
                proposer="openai",
                model=f"model-{node.number % 5}",
                template="large.txt@abc",
                prompt="p" * 8 * KB,
                reply="r" * 3 * KB,
                tokens_in=2000,
                tokens_out=700,
                price_usd=None if node.number % 100 == 0 else "0.0123",
            )
            for node in nodes
        )


def add_up() -> None:
    """What each call and verdict would have left, as the migration works it out."""
    from importlib import import_module

    from search.ledger.models import Spending
    from search.records.models import Node, Proposal

    for (run, day, model, kind), amounts in (
        import_module("search.migrations.0011_spending").sums_of(Proposal, Node).items()
    ):
        Spending.objects.create(run_id=run, day=day, model=model, kind=kind, **amounts)


def main() -> None:
    calls = int(sys.argv[1]) if len(sys.argv) > 1 else 100_000
    with tempfile.TemporaryDirectory(prefix="adaexplore-spend-") as folder:
        os.environ["ADAEXPLORE_DATA"] = folder
        os.environ["DJANGO_SETTINGS_MODULE"] = "adaexplore_site.settings"
        import django

        django.setup()
        from django.core.management import call_command
        from django.urls import reverse

        call_command("migrate", verbosity=0)
        begun = time.monotonic()
        fill(calls)
        print(f"{calls:,} calls written in {time.monotonic() - begun:.0f} s")
        begun = time.monotonic()
        add_up()
        print(f"added up as by the migration in {time.monotonic() - begun:.1f} s")
        from tests.pages import client_of

        client = client_of("viewer")
        for query in ("", "?by=model", "?by=kind", "?from=2020-01-01&to=2100-01-01"):
            times = []
            for _ in range(5):
                begun = time.monotonic()
                answer = client.get(reverse("spend") + query, headers={"host": "localhost"})
                times.append((time.monotonic() - begun) * 1e3)
                assert answer.status_code == 200, answer.status_code
            print(f"/spend/{query}: first {times[0]:.0f} ms, then median {sorted(times[1:])[2]:.0f} ms")


if __name__ == "__main__":
    main()
