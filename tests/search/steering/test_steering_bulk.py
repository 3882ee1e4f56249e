"""One act on many nodes: one batch in the log, one row of the audit, one undo; replay and exports know it."""

from __future__ import annotations

import json

import pytest

from adaexplore_site.actions.runner import undo
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.problems.models import Problem
from judge.values import text_hash
from search.algorithm.steering import FREE
from search.live.frames import build, recent_feed
from search.records.log import steering_of
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.steering.activity import activity_of
from search.steering.many import MAX_PINS, NodeFilter, batch_of
from search.steering.snapshot import Snapshot
from tests.load.forest import forest as plant
from tests.pages import HOSTILE, client_of, full_run
from tests.pseudo_locale import pseudo_reader
from tests.search.fakes import FakeBench, passed, wrong
from tests.search.interchange.test_round_trips import there_and_back
from tests.search.live_rows import grow, reserve
from tests.search.makers import Worker, kinds, make_run
from tests.search.recorded import REFERENCE, quick_hashes  # noqa: F401
from tests.search.steered import steer_bulk, steer_pin, steer_prune, steer_undo

pytestmark = pytest.mark.django_db
WRONG, SMALL = NodeFilter(states=("wrong",)), NodeFilter(kind="small")


def forest() -> Run:
    """1 fast with 2 wrong and 3 slow below it, 4 wrong, 5 fast below 4."""
    run = make_run(steps=20)
    grow(run, speedup=3.0)
    grow(run, speedup=None, parent=1, kind="small")
    grow(run, speedup=0.8, parent=1, kind="small")
    grow(run, speedup=None)
    grow(run, speedup=2.0, parent=4, kind="large")
    return Run.objects.get(pk=run.pk)


def many(run: Run, act: str, chosen: NodeFilter = WRONG, expected: int = 2, **more) -> AuditEntry:
    steer_bulk(run=run, act=act, chosen=chosen, expected=expected, user=more.pop("user", None), **more)
    return AuditEntry.objects.filter(verb="steer.bulk").latest("pk")


def test_a_prune_of_many_is_one_event_and_one_act_that_one_undo_takes_back():
    run = forest()
    before = run.event_seq
    act = many(run, "prune")
    assert (act.after["count"], act.after["words"], act.after["seq"]) == (2, "failed", before + 1)
    assert steering_of(run.pk).pruned == {2, 4} and kinds(run)[before:] == ["steer.bulk"]
    row = activity_of(run)[0]
    assert row.text == "2 nodes are pruned: nothing at or below them is selected" and row.detail == "failed"
    assert (row.standing.label, row.entry, row.number) == ("Undo", act.pk, None)
    steer_undo(run=run, seq=act.after["seq"], user=None)
    assert steering_of(run.pk).effects == FREE.effects and activity_of(run)[1].standing.why_not == "undone"
    assert activity_of(run)[0].text == "Undone: action on many nodes"


def test_the_filter_is_stored_in_the_same_language_for_everybody():
    run = forest()
    with pseudo_reader():
        act = many(run, "prune")
    assert act.after["words"] == "failed"


def test_what_it_covered_comes_back_and_what_came_after_stays():
    run = forest()
    steer_prune(run=run, number=3, user=None)
    steer_pin(run=run, number=5, quota=2, user=None)
    prune = many(run, "prune")
    restore = many(run, "restore", SMALL)
    boost = many(run, "boost", SMALL, boost=0.5)
    assert steering_of(run.pk).pins == () and steering_of(run.pk).boosts == {2: 0.5, 3: 0.5}
    steer_undo(run=run, seq=restore.after["seq"], user=None)
    assert steering_of(run.pk).pruned == {2, 3, 4}
    steer_undo(run=run, seq=prune.after["seq"], user=None)
    assert steering_of(run.pk).pruned == {3} and len(steering_of(run.pk).pins) == 1
    steer_undo(run=run, seq=boost.after["seq"], user=None)
    assert not steering_of(run.pk).boosts


def test_pins_of_a_batch_are_undone_one_by_one_or_together():
    run = forest()
    act = many(run, "pin", quota=3)
    assert [(pin.node, pin.left) for pin in steering_of(run.pk).pins] == [(2, 3), (4, 3)]
    assert kinds(run)[-3:] == ["steer.bulk", "steer.pin", "steer.pin"] and activity_of(run)[0].standing.label == "Undo"
    assert [item.text for item in recent_feed(Run.objects.get(pk=run.pk))][-1:] == [
        "2 nodes are pinned: 3 selections each"
    ]
    steer_undo(run=run, seq=steering_of(run.pk).pins[0].seq, user=None)
    assert [pin.node for pin in steering_of(run.pk).pins] == [4]
    steer_undo(run=run, seq=act.after["seq"], user=None)
    assert steering_of(run.pk).effects == FREE.effects
    with pytest.raises(ActionRefused, match="undone before"):
        steer_undo(run=run, seq=act.after["seq"], user=None)


@pytest.mark.parametrize("undone", [False, True])
def test_a_search_with_acts_on_many_nodes_comes_out_again(undone):
    bench = FakeBench({1: wrong(), 3: passed(0.5), 5: wrong()})
    worker, run = Worker(bench=bench), make_run(steps=14, concurrency=3)
    follow_ups = [FollowUp("advance", run.pk)]
    while run.nodes.filter(state=Node.State.COMPLETED).count() < 7:
        follow_ups = [*follow_ups[1:], *worker.do(follow_ups[0])]
    desk = Snapshot(run)
    for act, chosen in (("pin", SMALL), ("boost", NodeFilter(under=9)), ("prune", WRONG)):
        ready = len(batch_of(desk, act, chosen).ready)
        done = many(run, act, chosen, ready, quota=1, boost=0.3)
    if undone:
        steer_undo(run=run, seq=done.after["seq"], user=None)
    worker.work(follow_ups)
    found = replay_run(Run.objects.get(pk=run.pk))
    assert (found.first, found.acts, found.agreed) == (None, 3 + undone, 14)
    assert run.nodes.filter(steered__has_key="pin").exists()


def test_thousands_of_nodes_fit_into_events_of_two_kilobytes_with_one_undo():
    run = plant(1500)
    chosen = NodeFilter(kind="small")
    ready = batch_of(Snapshot(run), "boost", chosen).ready
    act = many(run, "boost", chosen, len(ready), boost=0.1)
    events = list(run.events.filter(kind="steer.bulk"))
    assert len(events) > 1 and all(len(json.dumps(event.payload)) <= 2048 for event in events)
    assert [event.seq for event in events] == list(range(events[0].seq, events[0].seq + len(events)))
    assert steering_of(run.pk).boosts.keys() == set(ready)
    steer_undo(run=run, seq=act.after["seq"], user=None)
    assert not steering_of(run.pk).boosts


def test_the_same_key_is_one_act():
    run = forest()
    for _ in range(2):
        many(run, "prune", key="k")
    assert AuditEntry.objects.filter(verb="steer.bulk").count() == 1 and len(steering_of(run.pk).actions) == 1


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"act": "prune", "expected": 3}, "2 nodes match now, not 3"),
        ({"act": "prune", "seen": "0" * 16}, "Other nodes match now"),
        ({"act": "prune", "chosen": NodeFilter(), "expected": 5}, "Select nodes with the filter"),
        ({"act": "note"}, "no action 'note'"),
        ({"act": "pin", "quota": 0}, "1 to 1000 selections"),
        ({"act": "boost", "boost": 11.0}, "from -10 to 10"),
        ({"act": "restore", "expected": 0}, "Nothing was changed"),
    ],
)
def test_an_act_that_does_not_fit_is_refused_and_changes_nothing(given, why):
    run = forest()
    with pytest.raises(ActionRefused, match=why):
        many(run, **given)
    assert kinds(run) == kinds(run)[: run.event_seq] and not AuditEntry.objects.filter(verb="steer.bulk").exists()


def test_a_boost_that_all_nodes_have_is_written_once():
    run = forest()
    for _ in range(2):
        many(run, "boost", boost=0.5)
    assert AuditEntry.objects.filter(verb="steer.bulk").count() == 1 and kinds(run).count("steer.bulk") == 1


def test_too_many_pins_are_refused_before_anything_is_written():
    run = plant(150)
    found = batch_of(Snapshot(run), "pin", NodeFilter(under=99))
    assert len(found.ready) > MAX_PINS and "Narrow the filter" in found.why_not
    with pytest.raises(ActionRefused, match="at most 50 nodes, not"):
        many(run, "pin", NodeFilter(under=99), len(found.ready), quota=1)


def test_what_is_told_after_a_person_looked_is_not_reached():
    run = forest()
    grow(run, speedup=None)
    looked = NodeFilter(states=("wrong",), told=5)
    many(run, "prune", looked, 2)
    assert steering_of(run.pk).pruned == {2, 4}


def test_what_is_pruned_already_is_left_out_and_said():
    run = forest()
    steer_prune(run=run, number=4, user=None)
    steer_prune(run=run, number=1, user=None)
    found = batch_of(Snapshot(run), "prune", NodeFilter(under=9, states=()))
    assert found.ready == () and dict(found.left) == {"pruned already": 1, "below a pruned node": 2}
    assert batch_of(Snapshot(run), "restore", NodeFilter()).ready == (1, 4)


def test_open_pages_hear_of_every_node_that_an_undo_gave_back():
    run = forest()
    act = many(run, "prune")
    since = Run.objects.get(pk=run.pk).event_seq
    steer_undo(run=run, seq=act.after["seq"], user=None)
    assert json.loads(build(run.pk, since).text)["nodes"]["n"] == [2, 4]


@pytest.mark.parametrize("form", ["zip", "packed"])
@pytest.mark.usefixtures("quick_hashes")
def test_it_travels_with_the_search_as_history(form):
    bench, run = FakeBench({1: wrong(), 2: wrong()}), make_run(steps=4)
    Problem.objects.update(source=REFERENCE, source_hash=text_hash(REFERENCE))
    worker, follow_ups = Worker(bench=bench), [FollowUp("advance", run.pk)]
    while run.nodes.filter(state=Node.State.COMPLETED).count() < 4:
        follow_ups = follow_ups[1:] + worker.do(follow_ups[0])
    act = many(run, "prune")
    steer_undo(run=run, seq=act.after["seq"], user=None)
    worker.work(follow_ups)
    back = there_and_back(Run.objects.get(pk=run.pk), form)
    rows = {row.verb: row for row in activity_of(back) if row.imported}
    assert rows["steer.bulk"].text.startswith("2 nodes are pruned") and rows["steer.bulk"].detail == "failed"
    assert rows["steer.bulk"].standing.why_not == "undone there" and steering_of(back.pk).actions == ()
    assert replay_run(back).first is None


@pytest.fixture
def sent(monkeypatch):
    follow_ups = []
    monkeypatch.setattr("search.records.queue.send", follow_ups.extend)
    return follow_ups


def form_of(html: str, act: str) -> dict[str, str]:
    part = next(part for part in html.split("<form")[1:] if f'name="act" value="{act}"' in part)
    fields = [field.split('"')[0:3:2] for field in part.split('name="')[1:]]
    return dict(fields)


def test_the_page_counts_first_and_its_form_does_just_that(sent):
    run, operator = forest(), client_of("operator")
    reserve(run)
    html = operator.get(f"/s/{run.pk}/bulk/?state=wrong").content.decode()
    assert "2 nodes: failed" in html and "This closes 3 nodes" in html and "1 in flight has no verdict" in html
    answer = operator.post(f"/s/{run.pk}/bulk/", form_of(html, "prune"), follow=True)
    assert answer.redirect_chain == [(f"/s/{run.pk}/", 302)] and steering_of(run.pk).pruned == {2, 4}
    html = answer.content.decode()
    assert "2 nodes are pruned" in html and "undo-toast" in html
    undo(AuditEntry.objects.get(verb="steer.bulk"), user=answer.context["user"])
    assert steering_of(run.pk).effects == FREE.effects


def test_more_than_fifty_nodes_are_confirmed_by_their_number(sent):
    run, operator = plant(150), client_of("operator")
    html = operator.get(f"/s/{run.pk}/bulk/?under=99").content.decode()
    fields = form_of(html, "prune")
    count = fields["expected"]
    assert int(count) > 50 and f"Type {count}" in html
    for typed in ("", "7"):
        answer = operator.post(f"/s/{run.pk}/bulk/", fields | {"typed": typed})
        assert answer.status_code == (409 if typed else 422) and not steering_of(run.pk).actions
    assert operator.post(f"/s/{run.pk}/bulk/", fields | {"typed": count}).status_code == 302
    assert len(steering_of(run.pk).pruned) == int(count)


def test_a_filter_that_cannot_be_read_reaches_nothing(sent):
    run, operator = forest(), client_of("operator")
    answer = operator.get(f"/s/{run.pk}/bulk/?under=fast&state=wrong")
    assert answer.status_code == 422 and "Enter a speedup" in answer.content.decode()
    fields = {"act": "prune", "expected": "2", "state": "wrong", "below": "x"}
    assert operator.post(f"/s/{run.pk}/bulk/", fields).status_code == 422 and not steering_of(run.pk).actions


def test_a_viewer_sees_what_matches_and_an_ended_search_says_why_nothing_is_done():
    run, viewer = full_run(), client_of("viewer")
    html = viewer.get(f"/s/{run.pk}/bulk/", {"state": "wrong", "q": HOSTILE}).content.decode()
    assert 'name="act"' not in html and "<img" not in html
    Run.objects.update(state="finished")
    html = client_of("operator").get(f"/s/{run.pk}/bulk/?state=wrong").content.decode()
    assert 'name="act"' not in html and "has ended" in html
