"""Events as values: stored as the same JSON in every version, read from logs of older ones."""

from __future__ import annotations

import json

import pytest

from search.algorithm.steering import PIN, PRUNE, Steering, SteeringAction
from search.records.events import (
    EVENTS,
    Event,
    ManySteered,
    NodeBest,
    NodePinned,
    NodeReserved,
    RunEnded,
    RunPaused,
    SteeringUndone,
    event_read,
)

STORED = [
    ("run.started", '{"steps": 2, "proposer": "builtin", "device": "interpreter", "imported": true}'),
    ("run.paused", '{"by": ""}'),
    ("run.ended", '{"state": "finished", "reason": "", "told": 2, "best": null}'),
    ("run.ended", '{"state": "finished", "reason": "", "told": 2, "limit": "steps", "best": 1, "won": null}'),
    ("node.reserved", '{"number": 1, "parent": 0, "kind": "large", "context": [], "by_hand": true}'),
    ("node.reserved", '{"number": 1, "parent": 0, "kind": "small", "context": [0], "steered": {"pin": 3}}'),
    ("lease.expired", '{"number": 1, "attempts": 2}'),
    ("steer.boost", '{"number": 1, "boost": 0.0}'),
    ("steer.force", '{"kind": "large"}'),
    ("steer.bulk", '{"verb": "prune", "numbers": "", "releases": [4], "of": 7}'),
    ("kernel.asked", '{"number": 1, "recheck": 4, "kind": "verify"}'),
]


@pytest.mark.parametrize(("kind", "text"), STORED)
def test_what_is_stored_is_written_again_to_the_letter(kind, text):
    assert json.dumps(event_read(kind, json.loads(text)).to_json()) == text


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_every_kind_is_read_as_itself(kind):
    read = event_read(kind, {"number": 3, "later": "a field of a newer version"})
    assert type(read) is EVENTS[kind] and read.name == kind and "later" not in read.to_json()


def test_an_unknown_kind_says_nothing_and_is_about_no_node():
    assert (event_read("run.moved", {"number": 3}).to_json(), Event().node) == ({}, None)


def test_a_best_of_an_older_log_counts_as_one_that_beat_pytorch():
    assert NodeBest.read({"number": 1}).is_win and not NodeBest.read({"number": 1, "won": False}).is_win
    assert RunEnded.read({"state": "finished"}).by_steps and RunPaused.read({}).by is None


def test_acts_fold_in_order_and_an_undo_takes_all_of_its_batch():
    pruned = ManySteered(verb=PRUNE, count=2, words="", numbers="1-2")
    steering = NodePinned(number=4, quota=2, of=1).fold(pruned.fold(Steering(), 1), 2)
    assert steering.actions == (
        SteeringAction(1, PRUNE, nodes=(1, 2), batch=1),
        SteeringAction(2, PIN, 4, quota=2, batch=1),
    )
    assert SteeringUndone(act=1, verb="steer.bulk", total=9).fold(steering, 3).actions == ()
    assert NodeReserved(number=1, parent=0, kind="large", context=[], steered={"pin": 3, "notes": [1]}).uses == (3,)


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_an_event_says_its_own_line_of_the_feed_or_has_none(kind):
    event = EVENTS[kind].read({"verb": "steer.pin"})
    line = event.line()
    assert event.hidden == (kind in {"node.reserved", "node.proposed", "node.judging"})
    assert event.hidden or bool(line.text) != bool(line.verb), line
