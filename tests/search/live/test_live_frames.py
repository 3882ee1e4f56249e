"""Frames say exactly what changed, for every kind of event, in words and columns."""

from __future__ import annotations

import json

import pytest
from django.db import transaction

from search.live import frames
from search.live.columns import node_columns, replay_columns
from search.live.frames import feed_item
from search.records.events import EVENTS, Event, ProposerRetry
from search.records.log import event_write
from search.records.models import Run, RunEvent
from search.records.node_styles import STYLES
from tests.search.live_rows import grow, make_user, new_best, reserve
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def frame(run: Run, since: int) -> dict:
    return json.loads(frames.build(run.pk, since).text)


def write(run: Run, event: Event) -> RunEvent:
    with transaction.atomic():
        return event_write(run=run, event=event)


def looks(columns: dict) -> list[str]:
    return [STYLES[index] for index in columns["s"]]


def test_a_reserved_node_is_sent_as_in_flight_and_is_named_in_the_header():
    run = make_run()
    reserve(run)
    body = frame(run, 1)
    assert (body["from"], body["to"], looks(body["nodes"])) == (1, 2, ["proposing"])
    assert "node 1" in body["html"]["evidence"]
    assert body["feed"] == []  # the header says it; the feed holds what ended


def test_a_told_node_carries_its_speedup_with_interval_and_basis():
    run = make_run()
    grow(run, speedup=2.0)
    body = frame(run, 1)
    nodes = body["nodes"]
    assert (nodes["x"], nodes["lo"], nodes["hi"], nodes["bs"]) == ([2.0], [1.8], [2.2], ["modelled"])
    assert looks(nodes) == ["correct"]
    assert "2.0×" in body["feed"][-1]["html"]
    assert "MODELLED" in body["feed"][-1]["html"]
    assert "MODELLED" in body["html"]["evidence"]


def test_a_slower_and_a_wrong_node_look_different_and_the_failure_is_counted_by_cause():
    run = make_run()
    grow(run, speedup=0.5)
    grow(run, speedup=None)
    body = frame(run, 1)
    assert looks(body["nodes"]) == ["slower", "wrong"]
    assert "wrong.values" in body["html"]["failures"]


def test_only_nodes_named_by_the_events_are_sent():
    run = make_run()
    for _ in range(4):
        grow(run)
    assert frame(run, run.event_seq - 1)["nodes"]["n"] == [4]


def test_a_new_best_gets_one_line_in_the_feed_not_two():
    run = make_run()
    new_best(grow(run))
    lines = [line["html"] for line in frame(run, 1)["feed"]]
    assert len(lines) == 1
    assert "is the new best" in lines[0]


@pytest.mark.parametrize("kind", sorted(EVENTS))
def test_every_kind_of_event_makes_a_frame_and_a_line_or_is_left_out_on_purpose(kind):
    run = make_run()
    reserve(run)
    number = {} if kind.startswith("run.") else {"number": 1}
    best = {"order": 1, "speedup": 2.0, "low": 1.8, "high": 2.2, "n": 7, "basis": "modelled", "evaluation": 0}
    more = best if kind == "node.best" else {"act": 1, "quota": 1} if kind.startswith("steer.") else {}
    with transaction.atomic():
        step = {"kind": "large"} if kind == "steer.force" else {}
        act = {"verb": "steer.pin", "before": {}, "after": {"number": 1, "quota": 2}} if kind == "history.act" else {}
        many = {"verb": "prune", "count": 1, "numbers": "1"} if kind == "steer.bulk" else {}
        changed = {"params": {}, "steps": 1, "total": 9} if kind.startswith("steer.") else {}
        payload = {**number, **more, **step, **act, **many, **changed, "state": "finished", "message": "later"}
        event = event_write(run=run, event=EVENTS[kind].read(payload))
    body = frame(run, event.seq - 1)
    assert body["to"] == event.seq
    hidden = kind in {"node.reserved", "node.proposed", "node.judging"}
    assert [line["seq"] for line in body["feed"]] == ([] if hidden else [event.seq])


def test_hostile_words_from_a_proposer_are_escaped():
    run = make_run()
    reserve(run)
    event = write(run, ProposerRetry(number=1, attempt=1, wait_s=1.0, message="<img src=x onerror=alert(1)>"))
    line = frame(run, event.seq - 1)["feed"][0]["html"]
    assert "<img" not in line
    assert "&lt;img" in line


def test_a_frame_holds_no_form_no_token_and_no_name_of_a_person():
    run = make_run(user=make_user("somebody"))
    grow(run)
    text = frames.build(run.pk, 0).text
    for word in ("<form", "csrf", "somebody"):
        assert word not in text


def test_frames_that_follow_each_other_leave_no_gap_and_end_where_the_log_ends():
    run = make_run()
    for _ in range(5):
        grow(run)
    at, seen = 0, []
    while (body := frame(run, at))["to"] > at:
        seen.append((body["from"], body["to"]))
        at = body["to"]
    assert seen == [(0, run.event_seq)]


def test_a_frame_beyond_the_size_limit_becomes_a_resync(monkeypatch):
    run = make_run()
    grow(run)
    monkeypatch.setattr(frames, "MAX_BYTES", 100)
    built = frames.build(run.pk, 0)
    assert (built.resync, json.loads(built.text)["type"]) == (True, "resync")


def test_a_snapshot_and_the_frames_since_agree():
    run = make_run()
    for speedup in (1.5, None, 3.0):
        grow(run, speedup=speedup)
    whole = frames.snapshot(Run.objects.get(pk=run.pk))
    assert whole["to"] == run.event_seq
    since = frame(run, 0)["nodes"]
    place = [whole["nodes"]["n"].index(number) for number in since["n"]]
    for name, values in since.items():
        assert [whole["nodes"][name][i] for i in place] == values, name


def test_a_node_waiting_for_a_person_does_not_look_as_if_a_machine_worked_on_it():
    run = make_run(proposer="manual")
    reserve(run)
    assert looks(node_columns(run, [1])) == ["waiting"]


def test_replay_knows_when_each_node_was_born_and_ended():
    run = make_run()
    grow(run)
    reserve(run)
    replay = replay_columns(Run.objects.get(pk=run.pk))
    assert replay["unit"] == "event"
    assert (replay["n"], replay["born"], replay["ended"]) == ([0, 1, 2], [0, 2, 4], [0, 3, None])


def test_a_run_without_node_events_is_replayed_by_steps():
    run = make_run()
    grow(run)
    RunEvent.objects.filter(run=run).delete()
    replay = replay_columns(run)
    assert (replay["unit"], replay["head"], replay["ended"]) == ("step", 1, [0, 1])


def test_an_unknown_event_kind_still_says_something():
    line = feed_item(RunEvent(seq=1, kind="run.moved", payload={}))
    assert line is not None
    assert line.text == "run moved"


def test_the_feed_is_as_long_as_the_page_shows_although_a_best_takes_two_events():
    run = make_run()
    for _ in range(12):
        new_best(grow(run))
    shown = [item.seq for item in frames.recent_feed(run, limit=10)]
    assert len(shown) == 10 and shown == sorted(shown) and shown[-1] == run.events.latest("seq").seq
