"""Every action that steers a search: role, key, refusal, version, undo, and one sentence wherever it is told."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext
from django.utils.datastructures import MultiValueDict

from adaexplore_site.actions import registry, runner
from adaexplore_site.activity.trail import trail_rows
from adaexplore_site.core.models import AuditEntry
from search.live.frames import feed_item
from search.records.kinds import RUN, RunEntries
from search.records.log import steering_of
from search.records.models import Node, Run, RunEvent
from search.steering import actions, run_actions
from search.steering.activity import activity_of, said_of_event
from search.steering.many import NodeFilter, batch_of
from search.steering.snapshot import Snapshot
from tests.pages import client_of, full_run
from tests.search.live_rows import grow
from tests.search.makers import make_run, old_budget_add
from tests.search.steered import steer_pin, steer_prune
from tests.site.api.test_api_acts import Program

pytestmark = pytest.mark.django_db
PIN, MORE = {"number": 1, "quota": 4}, {"steps": 7}
KERNEL = "class ModelNew:\n    by_hand = True\n"


@dataclass(frozen=True)
class Case:
    """An action on `full_run`: what is sent, what is refused, and its sentence. `ready` comes first."""

    sent: dict[str, Any]
    wrong: dict[str, Any]
    says: str
    place: str = "{run}"
    ready: tuple[str, dict[str, Any]] | None = None
    undone: bool = True


CASES = {
    "steer.pin": Case(PIN, {"number": 0, "quota": 4}, "Node 1 is pinned: the next 4 selections"),
    "steer.prune": Case({"number": 1}, {"number": 0}, "Node 1 is pruned: nothing at or below it is selected"),
    "steer.restore": Case(
        {"number": 1}, {"number": 2}, "Node 1 is restored", ready=("steer.prune", {"number": 1})
    ),
    "steer.boost": Case({"number": 1, "boost": 0.5}, {"number": 1, "boost": 11.0}, "Node 1 has +0.5 added"),
    "steer.force": Case({"kind": "small", "number": 1}, {"kind": "vast"}, "Node 1 takes a small step next"),
    "steer.note": Case({"number": 1, "text": "mind the tail"}, {"number": 1, "text": " "}, "Node 1 has a note"),
    "steer.inject": Case(
        {"number": 1, "source": KERNEL}, {"source": "def mine(:"}, "Node 5 was written by hand, below node 1"
    ),
    "steer.params": Case({"w": 0.5, "was-w": "0.3"}, {"w": "much"}, "Parameters changed"),
    "steer.bulk": Case(
        {"act": "prune", "state": ["wrong"], "expected": 1},
        {"act": "prune", "state": ["wrong"], "expected": 7},
        "1 node is pruned: nothing at or below it is selected",
    ),
    "steer.undo": Case({}, {"seq": 1}, "Undone: pin of node 1", ready=("steer.pin", PIN), undone=False),
    "run.budget": Case(MORE, {"steps": -1}, "Budget added"),
    "run.budget.undo": Case({}, {"action": 0}, "Added budget taken back", ready=("run.budget", MORE), undone=False),
    "run.concurrency": Case({"concurrency": 3}, {"concurrency": 9999}, "Steps in flight 1 → 3"),
    "run.branch": Case(
        {"steps": 6}, {"steps": 6, "device": "nowhere"}, "Node 2 was branched into search #", place="{run}/2"
    ),
}  # fmt: skip


@pytest.fixture
def run(monkeypatch) -> Run:
    monkeypatch.setattr("search.records.queue.send", lambda follow_ups: None)
    run = full_run()
    run.nodes.filter(number=2).update(source=KERNEL)
    return run


@pytest.fixture
def robot() -> Program:
    return Program("operator")


def place(name: str, run: Run) -> str:
    return f"{name}/{CASES[name].place.format(run=run.pk)}"


def prepared(name: str, run: Run, robot: Program) -> dict[str, Any]:
    """What is sent once the search is ready for it."""
    case = CASES[name]
    if case.ready is None:
        return case.sent
    assert robot.act(f"{case.ready[0]}/{run.pk}", case.ready[1]).status_code == 200
    done = AuditEntry.objects.latest("pk")
    named = {"steer.undo": {"seq": done.after.get("seq")}, "run.budget.undo": {"action": done.pk}}
    return named.get(name, case.sent)


def rows(run: Run) -> tuple[Any, ...]:
    """Everything that an action may change."""
    kept = Run.objects.values_list("pk", "state", "steps", "limits", "concurrency", "event_seq").order_by("pk")
    return list(kept), Node.objects.count(), RunEvent.objects.count(), AuditEntry.objects.count(), steering_of(run.pk)


def test_every_action_of_this_room_has_its_case():
    rooms = (actions.__name__, run_actions.__name__)
    room = {action.name for action in registry.actions() if type(action).__module__ in rooms}
    assert room == CASES.keys()


@pytest.mark.parametrize("name", CASES)
def test_a_form_with_the_same_key_changes_nothing_and_leads_to_the_same_place(name, run, robot):
    sent = prepared(name, run, robot)
    first = robot.act(place(name, run), sent, key="k")
    assert first.status_code == 200, first.content
    before, entry, action = rows(run), AuditEntry.objects.latest("pk"), registry.action(name)
    data = {**sent, **action.sends}
    typed = QueryDict(mutable=True)
    for part, value in data.items():
        typed.setlist(part, [str(one) for one in value] if isinstance(value, list) else [str(value)])
    where = dict(zip(action.takes, (run.pk, 2), strict=False))
    asked = runner.Request(action, where, typed, MultiValueDict())
    outcome = runner.perform(asked, user=robot.user, key=entry.key)
    assert outcome.repeated and outcome.entry == entry and rows(run) == before
    assert outcome.result.location == (first.json()["at"] if name == "run.branch" else f"/s/{run.pk}/")


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused_leaves_every_row_as_it_was(name, run, robot):
    prepared(name, run, robot)
    before = rows(run)
    answer = robot.act(place(name, run), CASES[name].wrong)
    assert answer.status_code in (409, 422) and answer.json()["detail"] and rows(run) == before


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case.undone])
def test_undo_puts_back_what_held(name, run, robot):
    sent = prepared(name, run, robot)
    before = steering_of(run.pk).effects, run.steps, run.concurrency
    assert robot.act(place(name, run), sent).status_code == 200
    runner.undo(AuditEntry.objects.latest("pk"), user=robot.user)
    run.refresh_from_db()
    assert (steering_of(run.pk).effects, run.steps, run.concurrency) == before


@pytest.mark.parametrize("name", CASES)
def test_feed_activity_of_the_search_and_activity_of_all_say_the_same(name, run, robot):
    sent = prepared(name, run, robot)
    assert robot.act(place(name, run), sent).status_code == 200
    entry = AuditEntry.objects.latest("pk")
    everywhere = trail_rows([entry], robot.user)[0]
    assert everywhere.text.startswith(CASES[name].says)
    here = next(row for row in activity_of(run) if row.entry == entry.pk)
    events = [feed_item(event) for event in run.events.order_by("-seq")]
    line = next(item for item in events if item is not None and item.text == here.text)
    for one in (here, line):
        assert everywhere.text == (one.text if one.number is None else f"Node {one.number} {one.text}")
    assert here.detail == everywhere.change
    assert name == "steer.params" or line.detail == here.detail  # the event does not say what held before


def test_steps_added_by_an_old_version_are_told_and_undone(run, robot):
    old_budget_add(run=run, steps=2, user=robot.user)
    entry = AuditEntry.objects.get(verb="steer.budget")
    row = trail_rows([entry], robot.user)[0]
    assert (row.text, row.change, row.standing.label) == ("Budget added", "steps 10 → 12", "Undo")
    runner.undo(entry, user=robot.user, key="u")
    run.refresh_from_db()
    assert run.steps == 10 and trail_rows([entry], robot.user)[0].standing.why_not == "undone"


def test_a_pin_that_is_used_up_or_pruned_away_says_so(run, robot):
    steer_pin(run=run, number=2, quota=1, user=None)
    pin = AuditEntry.objects.get(verb="steer.pin")
    steer_prune(run=run, number=1, user=None)
    prune = AuditEntry.objects.get(verb="steer.prune")
    stands = {row.entry.pk: row for row in trail_rows([pin, prune], robot.user)}
    assert (
        stands[pin.pk].standing.why_not == "replaced"
        and stands[prune.pk].change == "Ended 1 pin or forced step below it"
    )
    used = make_run()
    grow(used, speedup=2.0)
    steer_pin(run=used, number=1, quota=1, user=None)
    mine = AuditEntry.objects.filter(verb="steer.pin").latest("pk")
    child = grow(used, speedup=2.0, parent=1)
    Node.objects.filter(pk=child.pk).update(steered={"pin": mine.after["seq"]}, touched=True)
    assert trail_rows([mine], robot.user)[0].standing.why_not == "used up"


def test_nothing_is_undone_on_a_search_that_stops_has_ended_or_is_gone(run, robot):
    steer_prune(run=run, number=1, user=None)
    robot.act(f"run.concurrency/{run.pk}", {"concurrency": 3})
    robot.act(f"run.budget/{run.pk}", {"steps": 3})
    entries = list(AuditEntry.objects.filter(verb__in=("steer.prune", "run.concurrency", "run.budget")))
    Run.objects.filter(pk=run.pk).update(state="stopping")
    stands = {row.entry.verb: row.standing.why_not for row in trail_rows(entries, robot.user)}
    assert stands["steer.prune"] == "the search is stopping" and not stands["run.budget"]
    Run.objects.filter(pk=run.pk).update(state="stopped")
    assert {row.standing.why_not for row in trail_rows(entries, robot.user)} == {"the search has ended"}
    AuditEntry.objects.filter(pk__in=[entry.pk for entry in entries]).update(object_id="99999")
    entries = list(AuditEntry.objects.filter(object_id="99999"))
    assert {row.standing.why_not for row in trail_rows(entries, robot.user)} == {"the search no longer exists"}
    assert [row.standing.label for row in trail_rows(entries, robot.user)] == [""] * 3


def test_a_page_of_many_searches_costs_as_many_queries_as_one_of_few(run, robot):
    counts, runs = [], [run]
    for more in (1, 4):
        runs += [full_run() for _ in range(more)]
        for one in runs[-more:]:
            one.nodes.filter(number=2).update(source=KERNEL)
            for name in ("steer.pin", "steer.inject", "run.budget", "run.concurrency", "run.branch"):
                assert robot.act(place(name, one), CASES[name].sent).status_code == 200
        entries = list(AuditEntry.objects.filter(object_type="run").select_related("actor"))
        with CaptureQueriesContext(connection) as queries:
            trail_rows(entries, robot.user)
        counts.append(len(queries))
    assert counts[0] == counts[1]


ANYTHING: list[dict[str, Any]] = [
    {},
    {"number": 3},
    {"run": [], "rival": {}, "verb": "<b>", "words": "", "reason": 7, "doubt": None, "before": {}, "after": None},
    {"params": {}, "releases": "many", "parent": 2, "boost": -1, "quota": 0, "note": ["x"], "by": "judge"},
]


@pytest.mark.parametrize("after", ANYTHING)
def test_every_verb_of_a_search_reads_whatever_an_imported_search_says_of_it(after):
    of_runs = [row for row in registry._verbs.values() if row.kind is RUN]
    assert len(of_runs) >= len(CASES)
    for row in of_runs:
        said = said_of_event(row.name, after)
        assert isinstance(said.text, str) and said.text and isinstance(said.detail, str), row.name
        assert said.number in (None, after.get("number")), row.name


def test_a_verb_of_another_room_in_an_imported_search_is_only_named():
    assert (
        said_of_event("view.save", {"number": 3}).text == "view save" and said_of_event("no.such", {}).text == "no such"
    )


def test_marks_of_the_judge_are_told_as_its_own(run):
    AuditEntry.objects.create(
        verb="kernel.quarantine", object_type="run", object_id=str(run.pk),
        after={"number": 2, "by": "judge", "doubt": "quarantined", "doubt_reason": "its audit failed"},
    )  # fmt: skip
    row = activity_of(run)[0]
    assert (row.actor, row.number, row.detail) == ("the judge", 2, "its audit failed")


def test_a_batch_tells_what_it_reaches_before_and_after(run, robot):
    ready = batch_of(Snapshot(run), "boost", NodeFilter(states=("wrong",))).ready
    sent = {"act": "boost", "state": ["wrong"], "expected": len(ready), "boost": 0.25}
    assert robot.act(f"steer.bulk/{run.pk}", sent).json()["said"] == ["1 node has +0.25 added to its score."]
    needs = robot.act(f"steer.bulk/{run.pk}", {**sent, "act": "pin"})
    assert needs.status_code == 422 and needs.json()["fields"].keys() == {"quota"}
    many = robot.act(f"steer.bulk/{run.pk}", {**sent, "expected": 51})
    assert many.status_code == 422 and "Type 51 to confirm" in many.json()["fields"]["typed"]
    assert robot.act(f"steer.bulk/{run.pk}", {**sent, "under": -1}).json()["fields"].keys() == {"under"}


def test_a_script_gets_the_panel_of_a_refused_branch_and_is_led_to_a_new_search(run):
    operator, script = client_of("operator"), {"HX-Request": "true"}
    refused = operator.post(f"/s/{run.pk}/n/2/branch", {"steps": "6", "device": "nowhere"}, headers=script)
    html = refused.content.decode()
    assert refused.status_code == 422 and html.strip().startswith("<article") and "no device" in html
    assert 'name="steps" min="1" max="9999" value="6"' in html
    done = operator.post(f"/s/{run.pk}/n/2/branch", {"steps": "6"}, headers=script)
    assert done["HX-Redirect"] == f"/s/{Run.objects.latest('pk').pk}/"


def test_a_refused_form_of_a_search_is_sent_again_under_a_key_of_its_own(run):
    operator = client_of("operator")
    html = operator.post(f"/s/{run.pk}/steer", {"act": "limits", "steps": "-4"}).content.decode()
    key = re.search(r'name="key" value="([^"]+)"', html)
    assert key and 'name="act" value="limits"' in html and 'name="tokens"' not in html
    for _ in range(2):
        operator.post(f"/s/{run.pk}/steer", {"act": "limits", "steps": "4", "key": key[1]})
    assert AuditEntry.objects.filter(verb="run.budget").count() == 1


def test_an_amount_for_a_limit_that_the_search_lacks_is_a_wrong_field(run, robot):
    answer = robot.act(f"run.budget/{run.pk}", {"tokens": 5})
    assert answer.status_code == 422 and "no limit of tokens" in answer.json()["fields"]["tokens"]
    assert robot.act(f"run.budget/{run.pk}").status_code == 409 and not AuditEntry.objects.filter(verb="run.budget")


def test_describe_needs_no_rows():
    entry = AuditEntry(verb="steer.pin", object_type="run", object_id="1", after={"number": 3, "quota": 1})
    assert (
        registry.verb("steer.pin").describe(entry, RunEntries([entry], {})).endswith("next 1 selection at or below it")
    )
