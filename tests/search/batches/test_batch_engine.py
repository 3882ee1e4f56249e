"""What every kind of batch does: campaigns and adapt runs have one engine."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from search.batches import actions
from search.batches.adapts import ADAPTS
from search.batches.campaigns import CAMPAIGNS
from search.batches.engine import Source
from search.records.models import Run
from search.runs.services import run_pause
from tests.pages import client_of
from tests.search import adapt_rows, campaign_rows
from tests.search.adapt_rows import AdaptWorker, make_adapt
from tests.search.campaign_rows import CampaignWorker, make_campaign, unseen

pytestmark = pytest.mark.django_db


@dataclass(frozen=True)
class Case:
    """A source, how one of its batches is made (with two at once), carried on and checked."""

    source: Source
    url: str
    make: Callable[..., Any]
    worker: Callable[[], Any]
    exact: Callable[[Any], None]

    def finish(self, worker: Any, batch: Any) -> Any:
        return (worker.complete if self.source is ADAPTS else worker.finish)(batch)

    def begun(self) -> Any:
        """A batch whose first searches run."""
        batch, worker = self.make(), self.worker()
        hops = self.source.advance(batch.pk)
        while hops and not self.states(batch):
            hops = [hop for found in hops for hop in worker.do(found)]
        assert self.states(batch) == {Run.State.RUNNING}
        return batch

    def states(self, batch: Any) -> set[str]:
        return set(self.source.searches(batch).values_list("state", flat=True))


def _campaign(**changes: Any) -> Any:
    return make_campaign(problems=[unseen(name) for name in "abcd"], steps=18, at_once=2, **changes)


def _adapt(*, key: str | None = None) -> Any:
    return make_adapt(at_once=2, key=key)


CASES = [
    Case(CAMPAIGNS, "campaigns", _campaign, CampaignWorker, campaign_rows.assert_exact),
    Case(ADAPTS, "adapt", _adapt, AdaptWorker, adapt_rows.assert_exact),
]


@pytest.fixture(params=CASES, ids=lambda case: case.source.name)
def case(request) -> Case:
    return request.param


def test_lost_messages_are_made_good_by_the_next_beat(case):
    batch, worker, chance = case.make(), case.worker(), random.Random(4)
    for _ in range(400):
        batch.refresh_from_db()
        if batch.ended:
            break
        for hop in [hop for hop in worker.beat(70) if chance.random() < 0.6]:
            worker.work(found for found in worker.do(hop) if chance.random() < 0.6)
    case.exact(batch)


def test_every_message_twice_changes_nothing(case):
    batch, worker = case.make(), case.worker()
    for _ in range(60):
        batch.refresh_from_db()
        if batch.ended:
            break
        for hop in worker.beat():
            worker.work([*worker.do(hop), *worker.do(hop)])
            case.source.advance_all(now=worker.now)
    case.exact(batch)


def test_a_search_deleted_by_hand_does_not_hold_it_up(case):
    batch = case.begun()
    Run.objects.all().delete()
    assert case.finish(case.worker(), batch).state == "finished"
    assert batch.entries.filter(state="started").count() >= 2


def test_pause_resume_and_stop_reach_its_searches_and_no_others(case):
    other = make_campaign("other")
    CAMPAIGNS.advance(other.pk)
    batch, source = case.begun(), case.source
    by_hand = source.searches(batch).order_by("pk").first()
    run_pause(run=by_hand, user=None)
    assert source.pause(batch, user=None, why="The budget is used up.").stop_reason == "The budget is used up."
    assert case.states(batch) == {"paused"} and source.advance_all() == []
    batch = source.resume(batch, user=None)
    assert (batch.state, batch.stop_reason) == ("running", "")
    by_hand.refresh_from_db()
    assert by_hand.state == "paused" and case.states(batch) == {"paused", "running"}
    batch = source.stop(batch, user=None)
    assert (batch.state, batch.stop_reason) == ("stopped", "Stopped.") and batch.ended_at is not None
    assert case.states(batch) == {"stopped"} and not batch.entries.filter(state="waiting").exists()
    assert CAMPAIGNS.searches(other).get().state == "running"
    entries = AuditEntry.objects.filter(object_type=source.name, object_id=str(batch.pk)).order_by("pk")
    assert [entry.verb.split(".")[1] for entry in entries] == ["start", "pause", "resume", "stop"]


def test_an_action_twice_is_one_action_and_an_ended_batch_takes_none(case):
    batch, source = case.make(key="form-1"), case.source
    assert case.make(key="form-1").pk == batch.pk
    for _ in range(2):
        assert source.pause(batch, user=None, key="form-2").state == "paused"
    assert AuditEntry.objects.filter(verb=f"{source.name}.pause").count() == 1
    assert source.stop(batch, user=None).state == "stopped"
    for act in (source.pause, source.resume):
        with pytest.raises(ActionRefused, match="already ended"):
            act(batch, user=None)
    assert source.stop(batch, user=None).state == "stopped"


def test_pause_resume_and_stop_from_the_page(case, monkeypatch):
    sent: list[Any] = []
    monkeypatch.setattr(actions, "send", sent.extend)
    batch, operator = case.begun(), client_of("operator")
    searches = case.source.searches(batch).count()
    page = f"/{case.url}/{batch.pk}"
    for act, state in (("pause", "paused"), ("resume", "running"), ("stop", "stopped")):
        assert operator.post(f"{page}/{act}", {"key": act, "sure": "1"}).status_code == 302
        batch.refresh_from_db()
        assert (batch.state, case.states(batch)) == (state, {state})
    assert [hop.task for hop in sent].count("advance") == searches
    late = operator.post(f"{page}/resume")
    assert late.status_code == 409 and "already ended" in late.content.decode()
    assert client_of("viewer").post(f"{page}/stop").status_code == 403


def test_nothing_starts_on_a_device_that_is_not_trusted_nor_what_a_command_drives(case):
    batch, source = case.make(), case.source
    Device.objects.update(state="quarantined", state_cause="noise")
    assert source.advance(batch.pk) == []
    Device.objects.update(state="active", state_cause="")
    source.rows.objects.update(driven_until=timezone.now() + timedelta(seconds=60))
    assert source.advance_all() == []
    assert len(source.advance_all(now=timezone.now() + timedelta(seconds=61))) >= 2
