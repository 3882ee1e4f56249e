"""What was added to limits is taken back as far as nobody has used it."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from search.ledger.books import limits_of
from search.live.frames import recent_feed
from search.records.models import Run
from search.records.queue import FollowUp
from search.replay.check import replay_run
from search.steering.activity import activity_of
from tests.pages import client_of
from tests.search.makers import Worker, make_run, old_budget_add
from tests.search.steered import run_budget_add, run_budget_take, steer_undo

pytestmark = pytest.mark.django_db


@pytest.fixture
def user():
    return get_user_model().objects.create_user("operator-one")


def added(run: Run, user, **delta) -> AuditEntry:
    run_budget_add(run=run, delta=delta, user=user)
    return AuditEntry.objects.filter(verb="run.budget").latest("pk")


def take(run: Run, act: AuditEntry, user, key: str | None = None):
    return run_budget_take(run=run, action_id=act.pk, user=user, key=key)


def test_limits_are_again_what_they_were_and_later_additions_stay(user):
    run = make_run(steps=5, limits={"wall_s": 100.0, "evaluations": 9})
    before = limits_of(run)
    first = added(run, user, wall_s="50", evaluations="3", steps="2")
    added(run, user, evaluations="10")
    take(run, first, user, key="k")
    take(run, first, user, key="k")
    run.refresh_from_db()
    now = limits_of(run)
    assert (now.steps, now.wall_s, now.evaluations) == (before.steps, before.wall_s, 19)
    assert AuditEntry.objects.filter(verb="run.budget.undo").count() == 1
    assert replay_run(run).equal


def test_what_is_used_up_stays(user):
    run = make_run(steps=1)
    act = added(run, user, steps="1")
    worker = Worker()
    worker.work(worker.do(FollowUp("advance", run.pk)))
    worker.work(worker.do(FollowUp("advance", run.pk)))
    with pytest.raises(ActionRefused, match="ended"):
        take(run, act, user)
    assert limits_of(Run.objects.get(pk=run.pk)).steps == 2


def test_steps_in_flight_hold_what_was_added(user):
    run = make_run(steps=1, concurrency=2)
    act = added(run, user, steps="1")
    Worker().do(FollowUp("advance", run.pk))
    with pytest.raises(ActionRefused, match=r"^2 steps are used, or held by steps in flight; only 1 would be allowed"):
        take(run, act, user)


def test_a_second_undo_and_a_strange_act_are_refused(user):
    run = make_run(steps=5)
    act = added(run, user, steps="1")
    take(run, act, user)
    for number in (act.pk, 0):
        with pytest.raises(ActionRefused, match="no such addition"):
            run_budget_take(run=run, action_id=number, user=user)


def test_activity_offers_the_undo_and_then_says_undone(user):
    run = make_run(steps=5)
    act = added(run, user, steps="1")
    offered = next(row for row in activity_of(run) if row.verb == "run.budget")
    assert (offered.entry, offered.standing.label) == (act.pk, "Undo")
    take(run, act, user)
    run.refresh_from_db()
    rows = activity_of(run)
    assert next(row for row in rows if row.verb == "run.budget").standing.why_not == "undone"


def test_steps_added_now_and_in_old_logs_are_one_act_with_one_label(user):
    run = make_run(steps=5)
    old_budget_add(run=run, steps=2, user=user)
    added(run, user, steps="3")
    take(run, AuditEntry.objects.get(verb="run.budget"), user)
    steer_undo(run=run, seq=AuditEntry.objects.get(verb="steer.budget").after["seq"], user=user)
    run.refresh_from_db()
    assert run.steps == 5 and replay_run(run).equal
    labels = [(row.text, row.detail) for row in reversed(activity_of(run)) if row.verb != "run.start"]
    assert labels[:2] == [("Budget added", "steps 5 → 7"), ("Budget added", "steps 7 → 10")]
    assert {text for text, _ in labels[2:]} == {"Added budget taken back"}
    feed = [item.text for item in recent_feed(run) if "udget" in item.text]
    assert feed == ["Budget added"] * 2 + ["Added budget taken back"] * 2


def test_a_running_search_has_one_form_to_add_steps():
    run = make_run(steps=5)
    html = client_of("operator").get(f"/s/{run.pk}/").content.decode()
    assert html.count('name="steps"') == 1 and 'name="act" value="limits"' in html
