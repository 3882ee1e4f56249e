"""An act that sets what holds already succeeds and writes nothing: no audit row, no event, and the page says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.contrib.messages import get_messages
from django.test import Client
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.actions import registry
from adaexplore_site.core.audit import NOTHING
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.saved_views.models import SavedView
from memory.adapt.models import AdaptRun
from memory.rules.decisions import rule_edit
from memory.rules.models import Rule
from search.batches.models import Campaign
from search.ledger.models import ModelPrice
from search.records.models import Run, RunEvent
from tests import pages
from tests.memory import failure_rows, rule_rows
from tests.search.campaign_rows import make_campaign
from tests.search.makers import make_device, make_run
from tests.search.steered import steer_prune
from tests.search.steering.test_steering_acts import partly

pytestmark = pytest.mark.django_db
Asked = tuple[dict[str, object], dict[str, object]]  # where, fields

# What adds something, or asks for something, each time: a repeat is a second one. Acts on what is gone are refused.
ADDS = {
    "run.start", "run.import", "gallery.import", "run.remove", "run.branch", "run.budget", "run.budget.undo",
    "steer.pin", "steer.force", "steer.inject", "steer.bulk", "steer.undo", "action.undo", "node.reply", "node.revoke",
    "kernel.verify", "kernel.dispute", "kernel.race", "kernel.recheck.cancel", "campaign.start", "adapt.start",
    "adapt.transfer", "device.check", "problem.upload", "selftest.start", "rule.split", "rule.defer", "rule.create",
    "rules.import", "rules.bulk", "rule.undo", "cluster.propose", "cluster.undo", "view.save", "member.invite",
    "member.link", "token.issue", "webhook.add", "webhook.test", "webhook.remove",
}  # fmt: skip


@pytest.fixture
def admin() -> Client:
    User.objects.create_superuser("root")
    client = Client()
    client.force_login(User.objects.get(), backend=pages.BACKEND)
    return client


def searched(state: str = "running", **changes: Any) -> dict[str, object]:
    run = make_run(steps=8)
    partly(run, 2)
    Run.objects.filter(pk=run.pk).update(state=state, **changes)
    return {"run_id": run.pk}


def judged(**changes: Any) -> dict[str, object]:
    run = pages.full_run()
    run.nodes.get(number=2).evaluation.__class__.objects.update(**changes)
    return {"run_id": run.pk, "number": 2}


def many(state: str) -> dict[str, object]:
    row = make_campaign("a")
    Campaign.objects.filter(pk=row.pk).update(state=state)
    return {"campaign_id": row.pk}


def adapting(state: str) -> dict[str, object]:
    pk = pages.adapt(make_run())
    AdaptRun.objects.filter(pk=pk).update(state=state, ended_at=None)
    return {"adapt_id": pk}


def price(withdrawn: bool) -> dict[str, object]:
    when = timezone.now() if withdrawn else None
    usd = {"usd_per_m_in": 1, "usd_per_m_out": 1}
    row = ModelPrice.objects.create(model="mine", valid_from=timezone.now().date(), withdrawn_at=when, **usd)
    return {"price_id": row.pk}


def cluster(**changes: Any) -> dict[str, object]:
    row = failure_rows.cluster_of(make_run())
    row.__class__.objects.filter(pk=row.pk).update(**changes)
    return {"key": row.key}


def merged(merge: bool) -> Asked:
    first = failure_rows.cluster_of(run := make_run())
    other = failure_rows.cluster_of(run, failure_rows.UNKNOWN)
    if merge:
        return {"key": first.key}, {"into": other.key}
    first.__class__.objects.filter(pk=first.pk).update(merged_into=other)
    return {"key": first.key}, {}


def ruled(state: str = "proposed", **changes: Any) -> dict[str, object]:
    row = rule_rows.rule("Do not call tl.dot on one element.", seen=1)
    Rule.objects.filter(pk=row.pk).update(state=state, **changes)
    return {"rule_id": row.pk}


def rolled() -> Asked:
    where = ruled()
    row = Rule.objects.get()
    rule_edit(text="Do not call tl.sum on one element.", **rule_rows.card(row))
    return where, {"number": 1}


def parted(merge: bool) -> Asked:
    where, other = ruled(), rule_rows.rule("Do not call tl.any in a loop.")
    if merge:
        return where, {"into": other.pk}
    Rule.objects.filter(pk=where["rule_id"]).update(state="merged", merged_into=other)
    return where, {}


def view(**changes: Any) -> dict[str, object]:
    return {"view_id": SavedView.objects.create(owner=User.objects.get(), place="run-list", name="old", **changes).pk}


def member(active: bool) -> dict[str, object]:
    return {"user_id": User.objects.create_user("mia", is_active=active).pk}


def token() -> dict[str, object]:
    return {"token_id": pages.api_token(User.objects.get()).pk}


def hook(on: bool) -> dict[str, object]:
    row = pages.webhook()
    row.__class__.objects.update(on=on)
    return {"webhook_id": row.pk}


def device(state: str) -> dict[str, object]:
    row = make_device()
    row.__class__.objects.update(state=state)
    return {"device_id": row.pk}


def pruned() -> dict[str, object]:
    where = searched()
    steer_prune(run=Run.objects.get(), number=1, user=None)
    return where


NODE = {"number": 1}
SETS: dict[str, Callable[[], Asked]] = {
    "run.pause": lambda: (searched(), {}),
    "run.resume": lambda: (searched("paused"), {}),
    "run.stop": lambda: (searched(), {}),
    "run.kill": lambda: (searched(), {}),
    "run.archive": lambda: (searched("stopped", ended_at=timezone.now()), {}),
    "run.unarchive": lambda: (searched("stopped", ended_at=timezone.now(), archived_at=timezone.now()), {}),
    "run.concurrency": lambda: (searched(), {"concurrency": 3}),
    "steer.prune": lambda: (searched(), NODE),
    "steer.restore": lambda: (pruned(), NODE),
    "steer.boost": lambda: (searched(), {**NODE, "boost": "0.5"}),
    "steer.note": lambda: (searched(), {**NODE, "text": "try  two passes"}),
    "steer.params": lambda: (searched(), {"w": "0.7", "was-w": "0.3"}),
    "kernel.quarantine": lambda: (judged(), {"reason": "too good"}),
    "kernel.flaky": lambda: (judged(), {}),
    "kernel.release": lambda: (judged(doubt="flaky"), {}),
    "kernel.retire": lambda: (judged(), {}),
    "kernel.restore": lambda: (judged(retired=True), {}),
    "campaign.pause": lambda: (many("running"), {}),
    "campaign.resume": lambda: (many("paused"), {}),
    "campaign.stop": lambda: (many("running"), {"sure": "1"}),
    "adapt.pause": lambda: (adapting("running"), {}),
    "adapt.resume": lambda: (adapting("paused"), {}),
    "adapt.stop": lambda: (adapting("running"), {"sure": "1"}),
    "device.activate": lambda: (device("draining"), {}),
    "device.drain": lambda: (device("active"), {}),
    "device.quarantine": lambda: (device("active"), {}),
    "spend.budget": lambda: ({}, {"day_usd": "5", "alert_percent": "80"}),
    "price.set": lambda: ({}, {"model": "mine", "usd_per_m_in": "1.5", "usd_per_m_out": "6", "source": "a page"}),
    "price.withdraw": lambda: (price(False), {}),
    "price.restore": lambda: (price(True), {}),
    "cluster.assign": lambda: (cluster(), {"assignee": "root"}),
    "cluster.mute": lambda: (cluster(), {}),
    "cluster.unmute": lambda: (cluster(muted_at=timezone.now(), muted_count=1), {}),
    "cluster.merge": lambda: merged(True),
    "cluster.split": lambda: merged(False),
    "rule.approve": lambda: (ruled(), {}),
    "rule.reject": lambda: (ruled(), {"reason": "2"}),
    "rule.retire": lambda: (ruled("approved"), {"reason": "2"}),
    "rule.restore": lambda: (ruled("rejected"), {}),
    "rule.edit": lambda: (ruled(), {"text": "Do not call tl.any  on one element."}),
    "rule.scope": lambda: (ruled(), {"arch": "sm_90"}),
    "rule.rollback": rolled,
    "rule.merge": lambda: parted(True),
    "rule.unmerge": lambda: parted(False),
    "view.rename": lambda: (view(), {"name": "new"}),
    "view.delete": lambda: (view(), {}),
    "view.restore": lambda: (view(deleted_at=timezone.now()), {}),
    "member.roles": lambda: (member(True), {"role": ["operator", "reviewer"]}),
    "member.off": lambda: (member(True), {}),
    "member.on": lambda: (member(False), {}),
    "token.revoke": lambda: (token(), {}),
    "webhook.on": lambda: (hook(False), {}),
    "webhook.off": lambda: (hook(True), {}),
}


def test_of_every_act_it_is_decided_whether_it_sets_or_adds():
    assert SETS.keys() | ADDS == {action.name for action in registry.actions()}
    assert not SETS.keys() & ADDS


def written() -> tuple[int, int, int, list[object]]:
    rules = list(Rule.objects.order_by("pk").values_list("revision", "current__number"))
    return AuditEntry.objects.count(), RunEvent.objects.count(), ModelPrice.objects.count(), rules


@pytest.mark.parametrize("act", SETS)
def test_a_second_time_it_writes_nothing_and_says_so(act, admin):
    where, fields = SETS[act]()
    action, said = registry.action(act), []

    def post(key: str) -> tuple[int, int, int, list[object]]:
        now: dict[str, object] = {}
        if "rule_id" in where:  # its page shows the message; the list shows the last action instead
            now = {"revision": Rule.objects.get(pk=where["rule_id"]).revision, "back": f"/rules/{where['rule_id']}/"}
        form = {**action.sends, **fields, **now, "key": key}
        answer = admin.post(reverse(action.route, kwargs=where), form)
        assert answer.status_code == 302, answer.content.decode()[-2000:]
        said.append([str(one) for one in get_messages(answer.wsgi_request)][-1])
        return written()

    before = written()
    first = post("first")
    assert (first != before, AuditEntry.objects.filter(verb=action.verb or action.name).exists()) == (True, True)
    assert post("second") == first
    assert said[0] != NOTHING and said[1] == NOTHING
