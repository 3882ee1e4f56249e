"""Every action on the kernel of a node, and the reply by hand: role, key, refusal, version, undo, words, forms."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from adaexplore_site.actions import registry, runner
from adaexplore_site.activity.trail import trail_rows
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.evaluations.models import Evaluation
from search.live.frames import feed_item
from search.nodes import actions
from search.proposers import get as get_proposer
from search.rechecks.models import Recheck
from search.records.kinds import RUN
from search.records.models import Node, Run, RunEvent
from search.records.queries import best_node
from search.steering.activity import activity_of
from tests.pages import client_of
from tests.search.kernel_rows import gpu_run, kernel
from tests.search.makers import Worker, make_run
from tests.search.steered import kernel_mark
from tests.site.api.test_api_acts import API, Program

pytestmark = pytest.mark.django_db
REPLY = "```python\nimport torch\n\n\nclass ModelNew(torch.nn.Module):\n    pass\n```\n"
SCRIPT = {"HX-Request": "true"}


@dataclass(frozen=True)
class Case:
    """An action on node 1: what is sent, what is refused and how, and its sentence. `ready` is done before."""

    says: str
    sent: dict[str, Any]
    wrong: tuple[dict[str, Any], int]
    ready: str = ""
    why_not: str = ""
    tasks: tuple[str, ...] = ()


AGAIN = ("recheck_kernel",)
LOST = ({}, 409)  # refused once the kernel has no verdict
CASES = {
    "kernel.verify": Case("was queued to be judged again", {}, LOST, "", "both verdicts are kept", AGAIN),
    "kernel.dispute": Case(
        "has a disputed verdict and was queued", {"reason": "the  tail"}, ({"reason": " "}, 422), "",
        "both verdicts are kept", AGAIN,
    ),
    "kernel.race": Case(
        "was queued to be measured as a pair with #", {"rival": "{run}.2"}, ({"rival": "the best"}, 422), "",
        "a measurement changes no verdict", AGAIN,
    ),
    "kernel.recheck.cancel": Case(
        "is not judged again", {"recheck": 0}, ({"recheck": 987_654}, 409), "kernel.verify", "request it again",
    ),
    "kernel.quarantine": Case("is quarantined", {"reason": "the tail"}, LOST),
    "kernel.flaky": Case("is marked as flaky", {"reason": "the tail"}, LOST),
    "kernel.release": Case("is released", {}, LOST, "kernel.quarantine"),
    "kernel.retire": Case("is retired: it can't lead", {}, LOST),
    "kernel.restore": Case("can lead the list of kernels again", {}, LOST, "kernel.retire"),
    "node.reply": Case(
        "was answered manually", {"text": REPLY}, ({"text": "I would rather not."}, 409), "",
        "prune its node instead", ("judge_node",),
    ),
}  # fmt: skip
MARKS = [name for name in CASES if isinstance(registry.action(name), actions.Mark)]


@pytest.fixture
def tasks(monkeypatch) -> list[str]:
    sent: list[str] = []
    monkeypatch.setattr(
        "search.records.queue.send", lambda follow_ups: sent.extend(follow_up.task for follow_up in follow_ups)
    )
    return sent


@pytest.fixture
def robot(tasks) -> Program:
    return Program("operator")


def searched(name: str) -> Run:
    """A search whose node 1 has a verdict, or waits for a reply."""
    if name == "node.reply":
        worker, run = Worker(), make_run(proposer="manual", steps=1)
        worker.proposer = get_proposer
        return worker.run(run)
    run = gpu_run()
    for speedup in (2.1, 2.0):
        kernel(run, speedup)
    return run


def prepared(name: str, robot: Program) -> tuple[Run, str, dict[str, Any]]:
    """The search, the place of its node 1, and what is sent."""
    run, case = searched(name), CASES[name]
    if case.ready:
        assert robot.act(f"{case.ready}/{run.pk}/1").status_code == 200
    sent = {part: text.format(run=run.pk) if part == "rival" else text for part, text in case.sent.items()}
    if "recheck" in sent:
        sent["recheck"] = Recheck.objects.latest("pk").pk
    run.refresh_from_db()
    return run, f"{name}/{run.pk}/1", sent


def rows() -> tuple[list[Any], ...]:
    """Everything that an action may change."""
    return (
        list(Run.objects.values_list("pk", "state", "event_seq")),
        list(Node.objects.values_list("pk", "state", "source_hash", "touched", "lease_until")),
        list(Evaluation.objects.values_list("pk", "doubt", "doubt_reason", "retired").order_by("pk")),
        list(Recheck.objects.values_list("pk", "kind", "state", "note", "message").order_by("pk")),
        list(RunEvent.objects.values_list("pk", "kind").order_by("pk")),
        list(AuditEntry.objects.exclude(object_type="token").values_list("pk", "verb").order_by("pk")),
    )


def marks(run: Run) -> tuple[str, str, bool]:
    found = run.nodes.get(number=1).evaluation
    return found.doubt, found.doubt_reason, found.retired


def test_every_action_of_this_room_has_its_case():
    room = {action.name for action in registry.actions() if type(action).__module__ == actions.__name__}
    assert room == CASES.keys()


def address(name: str) -> str:
    """The last part of the address of its form."""
    kind = {"kernel.recheck.cancel": "recheck/cancel", "node.reply": "reply"}.get(name, name.split(".")[1])
    return "mark" if name in MARKS else kind


@pytest.mark.parametrize("name", CASES)
def test_it_is_done_once_under_a_key_and_sends_its_tasks_once(name, robot, tasks):
    run, place, sent = prepared(name, robot)
    tasks.clear()
    first = robot.act(place, sent, key="k")
    assert first.status_code == 200, first.content
    body, before = first.json(), rows()
    assert body["at"] == f"/s/{run.pk}/n/1/" and body["action"]["after"]["number"] == 1 and body["said"]
    again = robot.act(place, sent, key="k")
    assert (again.status_code, again.json()["repeated"], rows()) == (200, True, before)
    assert tasks == list(CASES[name].tasks)


@pytest.mark.parametrize("name", CASES)
def test_a_repeated_form_changes_nothing_and_leads_to_the_page_it_came_from(name, robot, tasks):
    run, _, sent = prepared(name, robot)
    tasks.clear()
    operator, page = client_of("operator", "reader"), f"/s/{run.pk}/n/1/{address(name)}"
    form = {**sent, **registry.action(name).sends, "key": "k"}
    assert operator.post(page, form)["Location"] == f"/s/{run.pk}/n/1/"
    before = rows()
    assert operator.post(page, {**form, "back": "/kernels/?q=1"})["Location"] == "/kernels/?q=1"
    assert rows() == before and tasks == list(CASES[name].tasks)


@pytest.mark.parametrize("name", CASES)
def test_what_is_refused_leaves_every_row_as_it_was(name, robot, tasks):
    run, place, _ = prepared(name, robot)
    tasks.clear()
    wrong, status = CASES[name].wrong
    if (wrong, status) == LOST:
        run.nodes.filter(number=1).update(evaluation=None)
    before = rows()
    answer = robot.act(place, wrong)
    assert answer.status_code == status and answer.json()["detail"]
    assert ("fields" in answer.json()) == (status == 422) and rows() == before and tasks == []


@pytest.mark.parametrize("name", MARKS)
def test_a_mark_is_undone_once_with_the_reason_that_held_before(name, robot):
    run, place, sent = prepared(name, robot)
    before = marks(run)
    assert robot.act(place, sent).status_code == 200
    entry = AuditEntry.objects.latest("pk")
    assert marks(run) != before and trail_rows([entry], robot.user)[0].standing.label == "Undo"
    for _ in range(2):  # the same key again does nothing
        runner.undo(entry, user=robot.user, key="u")
    assert marks(run) == before and AuditEntry.objects.filter(key="u").count() == 1
    assert trail_rows([entry], robot.user)[0].standing.why_not == "changed since"
    with pytest.raises(ActionRefused, match="changed since"):
        runner.undo(entry, user=robot.user, key="once more")


def test_undo_of_flaky_brings_the_quarantine_back_and_leaves_the_retirement_alone(robot):
    run = searched("kernel.flaky")
    robot.act(f"kernel.quarantine/{run.pk}/1", {"reason": "first"})
    robot.act(f"kernel.flaky/{run.pk}/1", {"reason": "second"})
    flaky = AuditEntry.objects.get(verb="kernel.flaky")
    robot.act(f"kernel.retire/{run.pk}/1")
    runner.undo(flaky, user=robot.user, key="u")
    assert marks(run) == ("quarantined", "first", True)
    assert AuditEntry.objects.get(key="u").verb == "kernel.quarantine"


def test_a_mark_of_the_judge_is_undone_by_an_operator_after_the_search_has_ended(robot):
    run = searched("kernel.quarantine")
    kernel_mark(node=run.nodes.get(number=1), verb="kernel.quarantine", user=None, reason="it failed")
    Run.objects.filter(pk=run.pk).update(state="finished")
    entry = AuditEntry.objects.get(verb="kernel.quarantine")
    row = trail_rows([entry], robot.user)[0]
    assert (row.text, row.change, row.standing.label) == ("Node 1 is quarantined", "it failed", "Undo")
    assert best_node(run.pk).number == 2
    runner.undo(entry, user=robot.user, key="u")
    assert best_node(run.pk).number == 1
    AuditEntry.objects.filter(pk=entry.pk).update(object_id="99999")
    entry.refresh_from_db()
    assert trail_rows([entry], robot.user)[0].standing.why_not == "the search no longer exists"
    with pytest.raises(ActionRefused, match="no longer exists"):
        runner.undo(entry, user=robot.user)


@pytest.mark.parametrize("name", CASES)
def test_feed_and_both_lists_of_actions_say_the_same(name, robot):
    run, place, sent = prepared(name, robot)
    assert robot.act(place, sent).status_code == 200
    entry = AuditEntry.objects.latest("pk")
    everywhere = trail_rows([entry], robot.user)[0]
    assert everywhere.text.startswith(f"Node 1 {CASES[name].says}")
    here = next(row for row in activity_of(run) if row.entry == entry.pk)
    assert (f"Node {here.number} {here.text}", here.detail) == (everywhere.text, everywhere.change)
    events = RunEvent.objects.filter(run=run, kind__in=("kernel.asked", "kernel.marked"))
    lines = [item for event in events if (item := feed_item(event)) is not None]
    told = name in ("kernel.verify", "kernel.dispute", "kernel.race", *MARKS[:3])
    assert ((here.text, 1) in {(line.text, line.number) for line in lines}) == told


def test_a_page_of_many_marks_costs_as_many_queries_as_one_of_few(robot):
    counts = []
    for more in (1, 4):
        for _ in range(more):
            run = searched("kernel.retire")
            for name in ("kernel.retire", "kernel.quarantine", "kernel.verify"):
                assert robot.act(f"{name}/{run.pk}/1").status_code == 200
        entries = list(AuditEntry.objects.filter(object_type="run").select_related("actor"))
        with CaptureQueriesContext(connection) as queries:
            trail_rows(entries, robot.user)
        counts.append(len(queries))
    assert counts[0] == counts[1]


@pytest.mark.parametrize("name", ["kernel.quarantine", "kernel.recheck.cancel"])
@pytest.mark.skipif(connection.vendor != "postgresql", reason="SQLite locks no rows")
def test_a_named_version_locks_rows_in_the_same_order_as_the_action(name, robot):
    """Else two calls, or a call and a worker, can wait for each other."""
    run, place, sent = prepared(name, robot)
    other = gpu_run("relu")
    kernel(other, 2.0, source=run.nodes.get(number=1).source)
    given = {"If-Match": f'"{run.event_seq}"'}
    with CaptureQueriesContext(connection) as queries:
        answer = robot.client.post(f"{API}/acts/{place}", json.dumps(sent), "application/json", headers=given)
    assert answer.status_code == 200, answer.content
    first = next(one["sql"] for one in queries if "FOR UPDATE" in one["sql"])
    if name == "kernel.recheck.cancel":
        assert Recheck._meta.db_table in first
    else:
        both = re.search(r" IN \(([\d, ]+)\)", first)
        assert both and {int(pk) for pk in both[1].split(",")} == {run.pk, other.pk}


def test_scripts_get_the_panel_and_a_list_is_told_on_a_page(tasks):
    run, operator = searched("kernel.dispute"), client_of("operator")
    dispute = f"/s/{run.pk}/n/1/dispute"
    form = {"act": "dispute", "panel": "1"}
    refused = operator.post(dispute, {**form, "reason": " "}, headers=SCRIPT)
    html = refused.content.decode()
    assert (
        refused.status_code == 422 and html.strip().startswith("<article") and "Enter why the verdict is wrong" in html
    )
    done = operator.post(dispute, {**form, "reason": "the tail"}, headers=SCRIPT)
    html = done.content.decode()
    assert done.status_code == 200 and html.strip().startswith("<article") and "queued for its device" in html
    refused = operator.post(dispute, {**form, "reason": "more"}, headers=SCRIPT)
    assert refused.status_code == 409 and ">more</textarea>" in refused.content.decode()
    race = operator.post(f"/s/{run.pk}/n/1/race", {"rival": "<b>", "back": "/compare?k=1.1"})
    html = race.content.decode()
    assert race.status_code == 422 and "There is no kernel" in html and 'href="/compare?k=1.1"' in html
    assert "<b>&" not in html and "&lt;b&gt;" in html
    assert operator.post(f"/s/{run.pk}/n/1/mark", {"mark": "best"}).status_code == 404
    assert operator.post(f"/s/{run.pk}/n/99/verify").status_code == 404


def test_a_refused_reply_stays_in_its_form(tasks):
    run, operator = searched("node.reply"), client_of("operator")
    page = f"/s/{run.pk}/n/1/reply?tab=exchange"
    for headers in ({}, SCRIPT):
        refused = operator.post(page, {"text": "I would rather <not>."}, headers=headers)
        html = refused.content.decode()
        assert refused.status_code == 409 and 'id="reply-error"' in html and "rather &lt;not&gt;." in html
    long = operator.post(page, {"text": "x" * (actions.REPLY_CHARS + 1)}, headers=SCRIPT)
    assert (
        long.status_code == 422 and "The reply has 1048577 characters; the limit is 1048576." in long.content.decode()
    )
    assert tasks == [] and not AuditEntry.objects.filter(verb="node.reply").exists()
    done = operator.post(page, {"text": REPLY, "key": "k"}, headers=SCRIPT)
    assert done.status_code == 200 and "The reply was sent to the judge." in done.content.decode()
    late = operator.post(page, {"text": REPLY, "key": "other"}, headers=SCRIPT)
    assert late.status_code == 409 and "no longer waits for a reply" in late.content.decode()
    assert tasks == ["judge_node"]


def test_the_version_of_a_node_is_that_of_its_search():
    run = searched("kernel.verify")
    node = run.nodes.select_related("run").get(number=1)
    assert RUN.version(node) == Run.objects.get(pk=run.pk).event_seq
