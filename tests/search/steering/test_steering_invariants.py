"""Whatever happens to a run and whatever people ask of it: its log replays, pins get their due, pruned is pruned.

One storm takes half a second, so that a dozen are blown at every run of the suite: STORMS says how many,
and has a failing one made small.
"""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from search.algorithm.params import SearchParams
from search.records.facts import node_rows, tree_of
from search.records.models import Run, RunEvent
from search.replay.check import replay_run
from tests.search.makers import make_run, told
from tests.search.storm import Storm, gusts

pytestmark = pytest.mark.django_db
STORMS = int(os.environ.get("STORMS", "12"))
PHASES = [phase for phase in Phase if phase is not Phase.shrink or "STORMS" in os.environ]  # that takes minutes
weather = settings(max_examples=STORMS, deadline=None, suppress_health_check=list(HealthCheck), phases=PHASES)


@given(gusts, st.integers(0, 5), st.sampled_from([1, 4, 16]), st.sampled_from(["budget"] * 4 + ["drain", "kill"]))
@weather
def test_a_steered_run_replays_keeps_its_promises_and_spends_exactly_its_budget(gusts, seed, concurrency, ending):
    storm = Storm(make_run(steps=12, seed=seed, concurrency=concurrency))
    for gust in gusts:
        storm.blow(gust)
    assert replay_run(storm.run).first is None
    run = storm.calm() if ending == "budget" else storm.stopped(drain=ending == "drain")
    found = replay_run(run)
    assert found.first is None and found.agreed == found.decisions
    if ending == "budget":
        assert (run.state, len(told(run))) == (Run.State.FINISHED, run.steps)
    assert run.ended and len(told(run)) <= run.steps
    assert_nothing_is_pending(run)
    promises = Promises()
    for event in RunEvent.objects.filter(run=run).order_by("seq"):
        promises.check(event.seq, event.kind, event.payload)


def assert_nothing_is_pending(run: Run) -> None:
    for branch in tree_of(node_rows(run.pk), SearchParams()).branches.values():
        own = 0 if branch.is_root else 1
        assert (branch.pending, branch.visits) == (0, own + sum(child.visits for child in branch.children))


def done(kind: str, payload: dict[str, Any]) -> str:
    return f"steer.{payload['verb']}" if kind == "steer.bulk" else kind


def about(payload: dict[str, Any]) -> set[int]:
    if "number" in payload:
        return {payload["number"]}
    ends = [part.split("-") for part in payload["numbers"].split(",") if part]
    return {number for end in ends for number in range(int(end[0]), int(end[-1]) + 1)}


class Promises:
    """Reads a log by its own simple rules: nothing pruned is selected; the oldest pin that can be served is."""

    def __init__(self) -> None:
        self.parents: dict[int, int] = {}
        self.told = {0}
        self.acts: dict[int, tuple[str, dict[str, Any]]] = {}
        self.served: dict[int, set[int]] = {}

    def check(self, seq: int, kind: str, payload: dict[str, Any]) -> None:
        number = payload.get("number")
        if kind == "steer.undo":
            gone = [at for at, (_, asked) in self.acts.items() if payload["act"] in (at, asked.get("of"))]
            assert gone, payload
            for at in gone:
                self.acts.pop(at)
        elif kind.startswith("steer."):
            self.acts[seq] = (kind, payload)
        elif kind == "node.reserved":
            if not payload.get("by_hand"):
                self.selected(payload)
            self.parents[number] = payload["parent"]
        elif kind == "node.told":
            self.told.add(number)
        elif kind == "node.cancelled":
            self.parents.pop(number)
            for numbers in self.served.values():
                numbers.discard(number)

    def path(self, number: int) -> list[int]:
        path = [number]
        while path[-1]:
            path.append(self.parents[path[-1]])
        return path

    def open(self, number: int) -> bool:
        return number in self.told and not any(step in self.closed for step in self.path(number))

    @property
    def closed(self) -> set[int]:
        closed: set[int] = set()
        for kind, payload in self.acts.values():
            if done(kind, payload) == "steer.prune":
                closed |= about(payload)
            elif done(kind, payload) == "steer.restore":
                closed -= about(payload)
        return closed

    def pin(self) -> int | None:
        """The oldest pin with selections left whose node can be selected."""
        for seq, (kind, payload) in self.acts.items():
            if kind != "steer.pin" or payload["number"] not in self.parents or not self.open(payload["number"]):
                continue
            over = any(
                later > seq and done(what, asked) == "steer.prune" and about(asked) & set(self.path(payload["number"]))
                for later, (what, asked) in self.acts.items()
            )
            if not over and len(self.served.get(seq, ())) < payload["quota"]:
                return seq
        return None

    def selected(self, payload: dict[str, Any]) -> None:
        assert self.open(payload["parent"]), payload
        steered = payload.get("steered", {})
        forced_at = "force" in steered and "number" in self.acts[steered["force"]][1]
        assert steered.get("pin") == (None if forced_at else self.pin()), payload
        if "pin" in steered:
            pin = self.acts[steered["pin"]][1]["number"]
            assert pin in self.path(payload["parent"])
            self.served.setdefault(steered["pin"], set()).add(payload["number"])
        if "force" in steered:
            assert payload["kind"] == self.acts[steered["force"]][1]["kind"]
