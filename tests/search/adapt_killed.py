"""Drives an adapt run in processes that are killed, in its own data folder: `python -m tests.search.adapt_killed SEED`.

Prints one JSON document: how it ended, and how one with the same seed ends that nobody kills.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from typing import Any

import django

TASKS, STEPS, CONTROL, KILLS = 2, 3, 2, 3


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "adaexplore_site.settings"
    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)
    killed, calm = started(), started()
    deaths = storm(killed, random.Random(sys.argv[1]))
    drive(calm)
    json.dump({"deaths": deaths, "killed": told_of(killed), "calm": told_of(calm)}, sys.stdout)


def started() -> int:
    from tests.search.adapt_rows import make_adapt

    return make_adapt(tasks=TASKS, steps=STEPS, control_steps=CONTROL, seed=5).pk


def storm(adapt_id: int, rng: random.Random) -> int:
    """Kill whoever drives it at random moments, then let one come to the end. How many were killed at work."""
    from django.db import connections

    deaths = 0
    for number in range(KILLS + 1):
        connections.close_all()
        pid = os.fork()
        if pid == 0:
            try:
                drive(adapt_id)
            finally:
                os._exit(0)
        if number < KILLS:
            time.sleep(rng.uniform(0.05, 0.4))
            os.kill(pid, signal.SIGKILL)
        deaths += os.waitpid(pid, 0)[1] == signal.SIGKILL
        expire()
    return deaths


def expire() -> None:
    """As if the time had passed after which a dead process's leases are taken over."""
    from datetime import timedelta

    from django.utils import timezone

    from search.records.models import Node

    Node.objects.exclude(lease_until=None).update(lease_until=timezone.now() - timedelta(seconds=1))


def drive(adapt_id: int) -> None:
    from memory.adapt.models import AdaptRun
    from search.batches.adapts import ADAPTS
    from search.batches.engine import Tools
    from tests.search.adapt_rows import ScriptedWriter
    from tests.search.fakes import ScriptedProposer

    tools = Tools(ScriptedProposer(), bench(), lambda seconds: None, report, write=ScriptedWriter())
    ADAPTS.drive(AdaptRun.objects.select_related("device").get(pk=adapt_id), tools)


def report(run: Any) -> None:
    """Nothing to say."""


def bench() -> Any:
    """Takes some milliseconds, and finds a third of the kernels wrong, by their text alone."""
    from tests.search.campaign_rows import AdmittingBench
    from tests.search.fakes import passed, wrong

    class Slow(AdmittingBench):
        def evaluate(self, job: Any, *, progress: Any = None) -> Any:
            time.sleep(0.02)
            return wrong() if sum(job.candidate.encode()) % 3 == 0 else passed(1.5)

    return Slow()


def told_of(adapt_id: int) -> dict[str, Any]:
    """The searches with all they made, in order."""
    from memory.adapt.models import AdaptRun
    from memory.failures.models import Failure

    adapt = AdaptRun.objects.get(pk=adapt_id)
    tasks = adapt.entries.select_related("run__memory", "control").order_by("place")
    return {
        "state": adapt.state,
        "driven": adapt.driven_until is not None,
        "places": [task.place for task in tasks],
        "searches": [[_search(task.run), _search(task.control)] for task in tasks],
        "unlearned": Failure.objects.filter(run__adapt_task__adapt=adapt, lesson="").count(),
        "failures": Failure.objects.filter(run__adapt_task__adapt=adapt).count(),
    }


def _search(run: Any) -> dict[str, Any]:
    nodes = run.nodes.filter(state="told").exclude(number=0).order_by("told_order")
    return {
        "problem": run.problem_id,
        "state": run.state,
        "sources": [node.source for node in nodes],
        "passed": [node.evaluation.verdict == "pass" for node in nodes.select_related("evaluation")],
    }


if __name__ == "__main__":
    main()
