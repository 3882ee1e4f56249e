"""Notifications: what they tell, to whom it is new, and that a page costs the same whatever is stored."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth.models import User
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adaexplore_site.notifications.models import NoticeMark
from adaexplore_site.notifications.services import MOST, bell_of, holding, notices, notices_count
from judge.devices.models import Device
from memory.rules.models import Rule
from search.batches.models import Campaign
from search.engine.completion import run_end
from search.engine.devices import device_quarantine
from search.engine.problems import problem_quarantine, problem_release
from search.records.models import Run, RunEvent
from tests.pages import HOSTILE, client_of, full_run
from tests.search.makers import make_device, make_problem, make_run

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def nothing_kept():
    cache.clear()


def ago(**time) -> object:
    return timezone.now() - timedelta(**time)


def texts(**since) -> list[str]:
    return [one.text for one in notices(ago(**(since or {"hours": 1})), now=timezone.now(), reviewer=True)]


def test_searches_that_end_by_themselves_are_told_and_imports_and_stops_are_not():
    for state in ("finished", "failed", "stopped"):
        run_end(run=make_run(seed=len(state)), state=Run.State(state), reason="Why it ended.", now=timezone.now())
    Run.objects.create(
        problem=make_run().problem, device=make_device(), origin="import", state="finished", ended_at=ago()
    )
    assert sorted(texts()) == ["The search has failed", "The search has finished"]
    (one, _) = notices(ago(hours=1), now=timezone.now(), reviewer=False)
    assert one.detail == "Why it ended." and one.url.startswith("/s/")


def test_the_search_of_a_campaign_speaks_through_it():
    campaign = Campaign.objects.create(title="many", device=make_device(), proposer="builtin", steps=5)
    campaign.entries.create(problem=make_run().problem, place=1, state="started", run=make_run(seed=2))
    Run.objects.update(state="finished", ended_at=ago())
    Campaign.objects.update(state="finished", ended_at=ago())
    assert sorted(texts()) == ["The campaign has finished", "The search has finished"]


def test_the_last_new_best_of_a_search_is_told_with_its_evidence():
    full_run()
    (one,) = [one for one in notices(ago(hours=1), now=timezone.now(), reviewer=False) if one.look == "best"]
    assert one.text == "Node 2 is the new best, the last of 2" and one.evaluation.speedup == 3.0
    html = client_of("viewer").get("/notifications/").content.decode()
    assert "3.0×" in html and "MODELLED" in html and "<img src=x" not in html and "&lt;img src=x" in html


def test_a_silent_search_is_stuck_somewhere_while_it_runs():
    run = full_run()
    Device.objects.update(seen_at=ago(seconds=5))
    RunEvent.objects.filter(run=run).update(created_at=ago(minutes=4, seconds=5))
    (one,) = holding(timezone.now(), reviewer=False)
    assert one.text == "No event for 4 min, stuck in the proposal of node 4" and one.holds
    cache.clear()
    Run.objects.update(state="paused")
    assert holding(timezone.now(), reviewer=False) == []


def silent_runs(count: int) -> list[Run]:
    """Running searches with a last event 9 minutes ago, 8 minutes ago and so on."""
    runs = [make_run(seed=number) for number in range(count)]
    for number, run in enumerate(runs):
        RunEvent.objects.filter(run=run).update(created_at=ago(minutes=9 - number))
    return runs


def test_where_no_worker_runs_silent_searches_are_one_notice():
    client_of("viewer")
    silent_runs(3)
    Device.objects.update(seen_at=ago(minutes=30))
    (one,) = holding(timezone.now(), reviewer=False)
    assert one.text == "No worker is running" and one.holds and one.url == "/fleet/"
    assert one.detail == "3 running searches wait. Start the workers: make run, or manage.py up."
    assert notices_count(ago(hours=1), now=timezone.now(), reviewer=False) == 1


def test_a_device_that_no_worker_serves_is_named_where_others_are_served():
    first, second = silent_runs(2)
    gpu = Device.objects.create(name="cuda:0", kind="cuda", title="GPU")
    Run.objects.filter(pk=first.pk).update(device=gpu)
    Device.objects.filter(name="interpreter").update(seen_at=ago(seconds=5))
    found = {one.text: one.subject for one in holding(timezone.now(), reviewer=False)}
    stuck = "No event for 8 min, stuck in the choice of a next step"
    assert set(found) == {"No worker serves cuda:0", stuck} and found[stuck].endswith(f"#{second.pk}")


def test_without_a_silent_search_nothing_is_said_of_workers():
    make_device()
    assert holding(timezone.now(), reviewer=False) == []


def test_a_quarantined_problem_is_told_while_it_is():
    User.objects.create_user("ada")
    problem = make_problem()
    problem_quarantine(problem=problem, reason="it hangs", user=None)
    (one,) = notices(ago(hours=1), now=timezone.now(), reviewer=False)
    assert (one.subject, one.detail, one.holds) == (problem.title, "it hangs", True)
    assert one.url == f"/problems/{problem.slug}/"
    assert notices_count(ago(hours=1), now=timezone.now(), reviewer=False) == 1
    problem_release(problem=problem, user=None)
    assert notices(ago(hours=1), now=timezone.now(), reviewer=False) == []
    assert notices_count(ago(hours=1), now=timezone.now(), reviewer=False) == 0


def test_a_quarantined_device_is_told_once_while_it_is_and_after_that_as_what_happened():
    device = make_device()
    device_quarantine(device=device, cause=Device.Cause.FAULTS, reason=HOSTILE)
    assert texts() == ["Quarantined: nothing is judged on this device"]
    Device.objects.update(state="active", state_cause="")
    assert texts() == ["Quarantined by the judge"]


def test_rules_that_wait_are_told_to_those_who_review():
    Rule.objects.create(origin="import")
    assert holding(timezone.now(), reviewer=False) == []
    assert holding(timezone.now(), reviewer=True)[0].text == "1 rule waits for review"


def test_what_was_seen_is_not_new_and_the_mark_never_goes_back():
    viewer = client_of("viewer", "vera")
    User.objects.update(date_joined=ago(days=30))
    run_end(run=make_run(), state=Run.State.FINISHED, reason="", now=timezone.now())
    assert ", 1 new</span>" in viewer.get("/problems/").content.decode()
    told = viewer.get("/notifications/count").json()
    assert told["count"] == 1 and told["newest"].endswith("The search has finished")
    assert viewer.post("/notifications/seen", {"until": timezone.now().isoformat()}).status_code == 302
    viewer.post("/notifications/seen", {"until": "2020-01-01T00:00:00+00:00"})
    assert bell_of(User.objects.get(username="vera"), timezone.now()).count == 0
    html = viewer.get("/notifications/").content.decode()
    assert "The search has finished" in html and "Mark all as seen" not in html
    assert NoticeMark.objects.count() == 1


def test_nothing_to_tell_says_what_would_be():
    assert "No notifications" in client_of("viewer").get("/notifications/").content.decode()


def test_the_bell_counts_what_the_page_tells():
    client_of("viewer")
    run_end(run=full_run(), state=Run.State.FINISHED, reason="", now=timezone.now())
    full_run()
    silent = full_run()
    Campaign.objects.create(
        title="c", device=make_device(), proposer="builtin", steps=5, state="finished", ended_at=ago()
    )
    Rule.objects.create(origin="import")
    gone = Device.objects.create(name="gone", kind="cuda")
    for device in (make_device(), gone):
        device_quarantine(device=device, cause=Device.Cause.FAULTS, reason="broken")
    Device.objects.filter(pk=gone.pk).update(state="active", state_cause="")
    RunEvent.objects.filter(run=silent).update(created_at=ago(minutes=9))
    for since in (ago(hours=1), timezone.now()):
        for reviewer in (True, False):
            told = notices(since, now=timezone.now(), reviewer=reviewer)
            assert notices_count(since, now=timezone.now(), reviewer=reviewer) == len(told)
    assert len(notices(ago(hours=1), now=timezone.now(), reviewer=True)) == 9


def test_the_bell_asks_as_often_for_many_searches_as_for_one(django_assert_num_queries):
    client_of("viewer")
    full_run()
    with CaptureQueriesContext(connection) as few:
        notices(ago(hours=1), now=timezone.now(), reviewer=True)
    for seed in range(3):
        Run.objects.filter(pk=full_run().pk).update(seed=seed)
    with django_assert_num_queries(len(few)):
        notices(ago(hours=1), now=timezone.now(), reviewer=True)
    with django_assert_num_queries(2):
        notices_count(ago(hours=1), now=timezone.now(), reviewer=True)


def test_what_was_cut_of_one_kind_is_counted_with_what_is_not_shown():
    run, now = make_run(), timezone.now()
    common = {"problem": run.problem, "device": run.device, "state": "finished", "ended_at": now, "params": run.params}
    Run.objects.bulk_create(Run(seed=n, proposer="builtin", steps=1, **common) for n in range(MOST + 3))
    assert "3 older events are not shown" in client_of("viewer", "vera").get("/notifications/").content.decode()
