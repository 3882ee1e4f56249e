"""Actions on searches and devices: who may, once per key, on the version that was read, refused whole, undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from adaexplore_site.actions import registry
from adaexplore_site.activity.trail import ActRow, trail_rows
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.devices.services import baselines_expire
from search.fleet import actions as fleet
from search.interchange.imports import search_import
from search.records import queue
from search.records.models import Node, Run, RunEvent
from search.runs.services import run_pause
from tests.judge.gpu_rows import gpu
from tests.pages import client_of, full_run
from tests.search.fleet.test_revoking import on_device
from tests.search.makers import Worker, make_device, make_run
from tests.search.recorded import packed, step
from tests.search.steered import run_archive
from tests.site.api.test_api_acts import Program

pytestmark = pytest.mark.django_db
Rows = dict[type, list[Any]]


def running() -> Run:
    return full_run()


def paused() -> Run:
    return run_pause(run=full_run(), user=None)


def finished() -> Run:
    run = Worker().run(make_run(steps=1))
    run.refresh_from_db()
    return run


def archived() -> Run:
    run = finished()
    run_archive(run=run, archived=True, user=None)
    run.refresh_from_db()
    return run


def imported() -> Run:
    return search_import(data=packed([step(1, 0)]), name="one.json")


def quarantined() -> Device:
    device = gpu()
    fleet.device_state_set(device=device, state=Device.State.QUARANTINED, user=None)
    return device


def external() -> Device:
    return Device.objects.create(name="external:A", kind="external", title="A")


def held() -> Node:
    """A node that a worker has."""
    return on_device(Worker())[1]


def told() -> Node:
    return Node.objects.get(run=full_run(), number=1)


@dataclass(frozen=True)
class Case:
    """An action on an object that allows it, one that refuses it, and what undoes it says in the activity log."""

    name: str
    possible: Callable[[], Any]
    refusing: Callable[[], Any] | None
    undo: str = ""  # label of the button; empty where nothing undoes it
    why_not: str = ""


CASES = (
    Case("run.pause", running, finished, undo="Resume"),
    Case("run.resume", paused, finished, undo="Pause"),
    Case("run.stop", running, finished, undo="Resume"),
    Case("run.kill", running, finished, undo="Resume"),
    Case("run.archive", finished, running, undo="Undo"),
    Case("run.unarchive", archived, None, undo="Undo"),
    Case("run.remove", imported, running, why_not="import its file again"),
    Case("device.activate", quarantined, external, undo="Undo"),
    Case("device.drain", gpu, external, undo="Undo"),
    Case("device.quarantine", gpu, external, undo="Undo"),
    Case("device.check", gpu, external, why_not="a check changes nothing unless it fails"),
    Case("node.revoke", held, told, why_not="what its worker has done so far is lost"),
)
each = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
undoable = pytest.mark.parametrize("case", [case for case in CASES if case.undo], ids=lambda case: case.name)
refusing = pytest.mark.parametrize("case", [case for case in CASES if case.refusing], ids=lambda case: case.name)


@pytest.fixture(autouse=True)
def sent(monkeypatch) -> list[Any]:
    """What would have been sent to the queues."""
    found: list[Any] = []
    for module in (queue, fleet):
        monkeypatch.setattr(module, "send", found.extend)
    monkeypatch.setattr(fleet, "check_send", lambda *given: found.append(given) or True)
    return found


def parts(case: Case, target: Any) -> dict[str, int]:
    run_id = target.run_id if isinstance(target, Node) else target.pk
    known = {"run_id": run_id, "device_id": target.pk, "number": getattr(target, "number", 0)}
    return {name: known[name] for name in registry.action(case.name).takes}


def where(case: Case, target: Any) -> str:
    return "/".join([case.name, *map(str, parts(case, target).values())])


def address(case: Case, target: Any) -> str:
    return reverse(registry.action(case.name).route, kwargs=parts(case, target))


def fields(case: Case) -> dict[str, Any]:
    return {"sure": True} if case.name == "node.revoke" else {}


def rows() -> Rows:
    return {kind: list(kind.objects.order_by("pk").values()) for kind in (Run, Node, RunEvent, Device, AuditEntry)}


def entry_of(case: Case) -> AuditEntry:
    return AuditEntry.objects.filter(verb=case.name).latest("pk")


def row_of(entry: AuditEntry, robot: Program) -> ActRow:
    return trail_rows([entry], robot.user)[0]


@refusing
def test_a_refusal_leaves_every_row_as_it_was_and_says_why_on_a_page(case, sent):
    target, robot, operator = case.refusing(), Program("operator"), client_of("operator")
    before = rows()
    answer = robot.act(where(case, target), fields(case))
    assert answer.status_code == 409 and len(answer.json()["detail"]) > 20
    page = operator.post(address(case, target), {**registry.action(case.name).sends, "sure": "1"})
    assert page.status_code == 409 and 'role="alert"' in page.content.decode()
    assert rows() == before and not sent


@each
def test_the_activity_log_says_what_was_done_and_whether_it_can_be_undone(case):
    target, robot = case.possible(), Program("operator")
    assert robot.act(where(case, target), fields(case)).status_code == 200
    row = row_of(entry_of(case), robot)
    assert (row.standing.label, row.standing.why_not, row.may) == (case.undo, case.why_not, bool(case.undo))
    assert row.text[0].isupper() and "." not in row.text and row.subject.label


@undoable
def test_undo_puts_the_state_back_once(case, sent):
    target, robot, operator = case.possible(), Program("operator"), client_of("operator")
    state = (target.state, getattr(target, "archived_at", None) is None)
    assert robot.act(where(case, target), fields(case)).status_code == 200
    entry = entry_of(case)
    for _ in range(2):
        assert operator.post(f"/activity/{entry.pk}/undo", {"key": "u"}).status_code == 302
        target.refresh_from_db()
        assert (target.state, getattr(target, "archived_at", None) is None) == state
    assert row_of(entry, robot).standing.why_not == "replaced"
    before = rows()
    again = operator.post(f"/activity/{entry.pk}/undo", {"key": "another"})
    assert again.status_code == 409 and "This can&#x27;t be undone: replaced." in again.content.decode()
    assert rows() == before


def test_undoing_a_pause_sends_what_goes_on(sent):
    run, robot = running(), Program("operator")
    robot.act(f"run.pause/{run.pk}")
    assert not sent
    client_of("operator").post(f"/activity/{AuditEntry.objects.get(verb='run.pause').pk}/undo", {"key": "u"})
    assert [(follow_up.task, follow_up.target) for follow_up in sent] == [("advance", run.pk)]


def test_what_was_done_to_a_search_that_has_ended_or_is_gone_is_not_undone():
    run, robot = running(), Program("operator")
    robot.act(f"run.pause/{run.pk}")
    entry = AuditEntry.objects.get(verb="run.pause")
    Run.objects.update(state=Run.State.FINISHED)
    assert row_of(entry, robot).standing.why_not == "the search has ended"
    Run.objects.all().delete()
    row = row_of(entry, robot)
    assert row.standing.why_not == "the search no longer exists" and row.subject.url.endswith(f"/s/{run.pk}/activity/")


def test_what_the_judge_did_to_a_device_is_told_as_its_own():
    robot, device = Program("operator"), make_device()
    fleet.device_state_set(device=device, state=Device.State.ACTIVE, user=None)
    baselines_expire(device=device, reason="too far off")
    row = row_of(AuditEntry.objects.get(verb="device.drift"), robot)
    assert (row.who, row.text, row.change) == ("the judge", "Marked its baselines as out of date", "reason too far off")
    assert row.standing.why_not == "done by the judge"


def test_many_entries_are_read_in_as_many_queries_as_few():
    robot, counts = Program("operator"), []
    for _ in range(2):
        for case in CASES:
            assert robot.act(where(case, case.possible()), fields(case)).status_code == 200, case.name
        entries = list(AuditEntry.objects.select_related("actor").exclude(verb__startswith="token."))
        with CaptureQueriesContext(connection) as queries:
            assert len(trail_rows(entries, robot.user)) == len(entries)
        counts.append(len(queries))
    assert counts[0] == counts[1]
