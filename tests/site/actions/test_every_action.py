"""Every action, on an object that allows it: once per key, on the version that was read, undone once."""

from __future__ import annotations

import json
from typing import Any

import pytest

from adaexplore_site.actions import registry, runner
from adaexplore_site.actions.action import Action
from adaexplore_site.activity.trail import trail_rows
from adaexplore_site.core.audit import ActionRefused, action_done
from adaexplore_site.core.models import AuditEntry
from tests.site.actions.ready import READY, every_row
from tests.site.api.test_api_acts import API, Program

pytestmark = pytest.mark.django_db
each = pytest.mark.parametrize("name", sorted(READY.keys() - {"member.roles"}))  # no token may do that one
GONE = {"run.remove", "webhook.remove", "problem.delete"}  # there is nothing left to find, or to undo


@pytest.fixture
def robot() -> Program:
    """Somebody who may do everything."""
    return Program("admin", name="root")


def ready(name: str) -> tuple[Action, str, dict[str, Any], dict[str, Any]]:
    """The action, its place, the parts of its address, and what is sent."""
    where, sent = READY[name]()
    action = registry.action(name)
    if "rule_id" in where:
        sent = {"revision": action.locate(where).revision, **sent}
    return action, "/".join([name, *(str(where[part]) for part in action.takes)]), where, sent


def last(action: Action) -> AuditEntry:
    return AuditEntry.objects.filter(verb=action.verb or action.name).latest("pk")


@each
def test_the_same_key_again_changes_nothing(name, robot):
    _, place, _, sent = ready(name)
    before = every_row()
    first = robot.act(place, sent, key="k")
    assert first.status_code == 200 and every_row() != before, first.content
    before = every_row()
    again = robot.act(place, sent, key="k")
    assert every_row() == before
    if name not in GONE:
        assert (again.status_code, again.json()["repeated"]) == (200, True), again.content


@pytest.mark.parametrize("name", ["kernel.verify", "kernel.recheck.cancel", "run.budget", "run.remove"])
def test_of_two_calls_under_one_key_at_once_the_second_is_answered_as_the_first(name, robot, monkeypatch):
    _, place, _, sent = ready(name)
    assert robot.act(place, sent, key="k").status_code == 200
    before = every_row()
    asked: list[str] = []

    def not_yet_there(*, key: str | None, verb: str) -> AuditEntry | None:
        """The second call has looked before the first one committed."""
        asked.append(verb)
        return None if len(asked) == 1 else action_done(key=key, verb=verb)

    monkeypatch.setattr(runner, "action_done", not_yet_there)
    monkeypatch.setattr("adaexplore_site.api.site.answered_once", lambda *, do, **_: do())
    again = robot.act(place, sent, key="k")
    assert every_row() == before
    if name not in GONE:
        assert (again.status_code, again.json()["done"], len(asked)) == (200, True, 2), again.content


@each
def test_an_older_version_is_refused_with_the_object_of_now(name, robot):
    action, place, where, sent = ready(name)
    if not action.takes:
        pytest.skip("it is done to no object")
    target, path, before = action.locate(where), f"{API}/acts/{place}", every_row()
    version, now = action.kind.version(target), action.kind.now(target)

    def send(number: int) -> Any:
        given = {"If-Match": f'"{number}"'}
        return robot.client.post(path, json.dumps(sent), "application/json", headers=given)

    old = send(version + 1)
    assert old.status_code == 409 and old.json()["now"] == json.loads(json.dumps(now, default=str)), old.content
    assert every_row() == before
    assert send(version).status_code == 200


@each
def test_it_is_undone_once_or_says_why_not(name, robot):
    action, place, _, sent = ready(name)
    assert robot.act(place, sent).status_code == 200
    entry = last(action)
    row = trail_rows([entry], robot.user)[0]
    assert not row.text[0].islower() and not row.text.endswith(".")
    if action.irreversible:
        assert row.standing.why_not and not row.standing.label
    else:
        assert row.standing.label and row.may
        for _ in range(2):  # the same key again does nothing
            runner.undo(entry, user=robot.user, key="u")
        assert AuditEntry.objects.filter(key="u").count() == 1
        row = trail_rows([entry], robot.user)[0]
        assert row.standing.why_not and not row.standing.label
    before = every_row()
    with pytest.raises(ActionRefused, match="can't be undone"):
        runner.undo(entry, user=robot.user, key="once more")
    assert every_row() == before
