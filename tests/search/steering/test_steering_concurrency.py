"""Real threads against the real database: people steer while workers keep sixteen steps in flight."""

from __future__ import annotations

import pytest

from search.records.models import Run
from search.records.queue import FollowUp
from search.replay.check import replay_run
from tests.search.engine.test_concurrency import together
from tests.search.makers import Worker, kinds, make_run, told
from tests.search.steered import steer_note
from tests.search.storm import Bench, Storm

pytestmark = pytest.mark.django_db(transaction=True)

GUSTS = [("note", 0, 1), ("pin", 1, 4), ("boost", 2, 20), ("prune", 3, 0), ("force", 0, 0), ("inject", 1, 0)]
MORE = [("params", 0, 0), ("budget", 1, 0), ("restore", 3, 0), ("undo", 1, 0), ("pin", 5, 2), ("undo", 4, 0)]


def test_acts_among_sixteen_steps_in_flight_leave_a_log_that_replays():
    run = make_run(steps=30, concurrency=16)

    def act(k: int) -> list[str]:
        """The kinds that the log must have of the acts that were not refused, in their order."""
        if k == 0:
            storm, done = Storm(run), []
            for gust in [*GUSTS, *MORE]:
                refused = storm.refused
                storm.blow(gust)
                if storm.refused == refused and (
                    gust[0] != "restore" or "steer.prune" in done
                ):  # else it was so already
                    done.append("budget.added" if gust[0] == "budget" else f"steer.{gust[0]}")
            return done
        worker = Worker(bench=Bench())
        for _ in range(60):
            worker.work([FollowUp("advance", run.pk), *(worker.later(0) if k == 1 else [])], limit=10_000)
            if Run.objects.get(pk=run.pk).ended:
                break
        return []

    acts = together(4, act)[0]
    Storm(run).calm()
    run.refresh_from_db()
    found = replay_run(run)
    assert found.first is None and found.agreed == found.decisions
    assert (run.state, len(told(run))) == (Run.State.FINISHED, run.steps)
    assert [kind for kind in kinds(run) if kind.startswith(("steer.", "budget."))] == acts and len(acts) > 3


def test_the_same_act_sent_twice_at_once_happens_once():
    run = make_run(steps=5)
    together(4, lambda _: steer_note(run=run, number=0, text="once", user=None, key="double"))
    assert kinds(run).count("steer.note") == 1
