"""Actions on campaigns, adapt runs, the budget and prices: who may, once per key, refused, outdated, taken back."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from django.core import serializers
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action
from adaexplore_site.api.actions import body_of
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.problems.models import Problem
from memory.adapt.models import AdaptRun, AdaptTask
from search.batches import actions
from search.batches.adapts import ADAPTS
from search.batches.budgets import budget_set, budget_watch
from search.batches.campaigns import CAMPAIGNS
from search.batches.models import Campaign, CampaignEntry
from search.ledger.models import ModelPrice, SpendBudget, Spending
from search.ledger.prices import price_set, price_withdraw
from search.records.models import Run
from tests.pages import client_of
from tests.search.adapt_rows import make_adapt, make_samples
from tests.search.campaign_rows import make_campaign
from tests.search.makers import make_device, make_problem, make_run
from tests.site.api.test_api_acts import Program

pytestmark = pytest.mark.django_db

KINDS = ("campaign", "adapt", "budget", "price")
ROWS = (AuditEntry, Campaign, CampaignEntry, AdaptRun, AdaptTask, SpendBudget, ModelPrice, Run)
SHARED = {"device": "interpreter", "proposer": "builtin", "at_once": 1, "concurrency": 1}
CAMPAIGN = {**SHARED, "problem": ["a", "b"], "steps": 6, "seeds": "spread", "preset": "paper-l2"}
ADAPT = {
    **SHARED, "tasks": 2, "steps": 2, "control_steps": 1, "composer": "builtin", "preset": "adapt", "trust": "auto",
    "threshold": 3,
}  # fmt: skip
BUDGET = {"day_usd": "5.00", "alert_percent": 70, "pauses": True}
PRICE = {"model": "mine", "usd_per_m_in": "1.5", "usd_per_m_out": "6"}


@pytest.fixture(autouse=True)
def sent(monkeypatch) -> list:
    """What actions enqueue."""
    follow_ups: list = []
    monkeypatch.setattr(actions, "send", follow_ups.extend)
    return follow_ups


def price(*, withdrawn: bool = False) -> ModelPrice:
    usd = {"usd_per_m_in": Decimal(1), "usd_per_m_out": Decimal(2)}
    row = price_set(model="mine", **usd, on=timezone.now().date(), user=None)
    assert row is not None
    if withdrawn:
        price_withdraw(price=row, withdrawn=True, user=None)
    return row


def paused_campaign() -> Campaign:
    return CAMPAIGNS.pause(make_campaign(), user=None)


def paused_adapt() -> AdaptRun:
    return ADAPTS.pause(make_adapt(), user=None)


def two_problems() -> None:
    make_device(), make_problem("a"), make_problem("b")


def composable() -> None:
    make_device(), make_samples()


def learned() -> AdaptRun:
    make_problem("real")
    return make_adapt()


Case = tuple[Callable[[], Any], dict[str, Any]]
CASES: dict[str, Case] = {  # what makes it possible, and what it takes
    "campaign.start": (two_problems, CAMPAIGN),
    "campaign.pause": (make_campaign, {}),
    "campaign.resume": (paused_campaign, {}),
    "campaign.stop": (make_campaign, {"sure": True}),
    "adapt.start": (composable, ADAPT),
    "adapt.transfer": (learned, {"problem": ["real"], "steps": 2}),
    "adapt.pause": (make_adapt, {}),
    "adapt.resume": (paused_adapt, {}),
    "adapt.stop": (make_adapt, {"sure": True}),
    "spend.budget": (lambda: None, BUDGET),
    "price.set": (lambda: None, PRICE),
    "price.withdraw": (price, {}),
    "price.restore": (lambda: price(withdrawn=True), {}),
}
ON_OBJECT = [name for name, (make, _) in CASES.items() if registry.action(name).takes]


def rows() -> str:
    return "".join(serializers.serialize("json", model.objects.order_by("pk")) for model in ROWS)


def path(name: str, target: Any) -> str:
    return f"{name}/{target.pk}" if registry.action(name).takes else name


def address(action: Action, target: Any) -> str:
    return reverse(action.route, args=[target.pk] if action.takes else [])


def test_the_cases_are_all_actions_of_these_kinds():
    assert CASES.keys() == {action.name for action in registry.actions() if action.kind.name in KINDS}


@pytest.mark.parametrize("name", CASES)
def test_a_viewer_changes_nothing(name):
    make, fields = CASES[name]
    target, action = make(), registry.action(name)
    before = rows()
    url = address(action, target)
    answer = client_of("viewer").post(url, {**fields, **action.sends, "sure": "1"})
    assert answer.status_code == 403 and "operator" in answer.content.decode() and rows() == before


@pytest.mark.parametrize("name", CASES)
def test_a_key_makes_a_repeated_form_one_action(name):
    make, fields = CASES[name]
    target, action, operator = make(), registry.action(name), client_of("operator")
    url = address(action, target)
    sent = {**fields, **action.sends, "sure": "1", "key": "k"}
    first = operator.post(url, sent)
    entry, after = AuditEntry.objects.get(key="k"), rows()
    assert entry.verb == (action.verb or action.name) and entry.object_type == action.kind.name
    again = operator.post(url, sent)
    assert (first.status_code, again.status_code, again["Location"]) == (302, 302, first["Location"])
    assert rows() == after


@pytest.mark.parametrize("name", ON_OBJECT)
def test_an_older_version_is_refused_with_the_object_as_it_is(name):
    make, fields = CASES[name]
    target, robot = make(), Program("operator")
    target.refresh_from_db()
    kind = registry.action(name).kind
    before, version = rows(), kind.version(target)
    answer = robot.act(path(name, target), fields, HTTP_IF_MATCH=f'"{version - 1}"')
    assert answer.status_code == 409 and rows() == before
    assert answer.json()["now"] == kind.now(target) and answer.json()["now"]["version"] == version > 0
    assert robot.act(path(name, target), fields, HTTP_IF_MATCH=str(version)).status_code == 200
    assert kind.version(target) > version or name == "adapt.transfer"  # its entry is that of the new adapt run


STOPPED = "has already ended (stopped)"
REFUSED: list[tuple[str, Callable[[], Any], dict[str, Any], int, str]] = [
    ("campaign.start", two_problems, {**CAMPAIGN, "steps": 1}, 409, "2 problems need"),
    ("campaign.start", two_problems, {**CAMPAIGN, "problem": ["a", "zz"]}, 422, "no problem 'zz'"),
    ("campaign.pause", lambda: CAMPAIGNS.stop(make_campaign(), user=None), {}, 409, STOPPED),
    ("campaign.resume", lambda: CAMPAIGNS.stop(make_campaign(), user=None), {}, 409, STOPPED),
    ("campaign.stop", make_campaign, {}, 409, "Stop this campaign?"),
    ("adapt.start", composable, {**ADAPT, "usd": "1"}, 422, "costs no money"),
    ("adapt.start", composable, {**ADAPT, "device_s": "5"}, 409, "below what is held"),
    ("adapt.start", composable, {**ADAPT, "threshold": 0}, 422, "greater than or equal to 1"),
    ("adapt.transfer", learned, {"problem": ["gone"], "steps": 2}, 422, "no problem 'gone'"),
    ("adapt.transfer", learned, {"problem": ["sample0"], "steps": 20_000}, 422, "less than or equal"),
    ("adapt.pause", lambda: ADAPTS.stop(make_adapt(), user=None), {}, 409, STOPPED),
    ("adapt.resume", lambda: ADAPTS.stop(make_adapt(), user=None), {}, 409, STOPPED),
    ("adapt.stop", make_adapt, {}, 409, "Stop this adapt run?"),
    ("spend.budget", lambda: None, {**BUDGET, "alert_percent": 101}, 422, "less than or equal to 100"),
    ("spend.budget", lambda: None, {**BUDGET, "day_usd": "0"}, 409, "above $0"),
    ("price.set", lambda: None, {**PRICE, "usd_per_m_out": "1e9"}, 409, "for a million tokens"),
    ("price.set", lambda: None, {**PRICE, "usd_per_m_in": "-1"}, 422, "greater than or equal to 0"),
]


@pytest.mark.parametrize(("name", "make", "fields", "status", "words"), REFUSED)
def test_what_is_refused_leaves_every_row_as_it_was(name, make, fields, status, words):
    target, robot = make(), Program("operator")
    before = rows()
    answer = robot.act(path(name, target), fields)
    assert (answer.status_code, words in answer.json()["detail"]) == (status, True), answer.json()
    assert ("fields" in answer.json()) == (status == 422) and rows() == before


def test_a_batch_on_a_quarantined_device_stays_paused():
    made, robot = (paused_campaign(), paused_adapt()), Program("operator")
    Device.objects.update(state=Device.State.QUARANTINED)
    before = rows()
    for one, name in zip(made, ("campaign", "adapt"), strict=True):
        refused = robot.act(f"{name}.resume/{one.pk}")
        assert refused.status_code == 409 and "is quarantined" in refused.json()["detail"]
        assert refused.json()["now"]["state"] == "paused"
        page = client_of("operator", name).post(reverse(f"{name}-resume", args=[one.pk]))
        assert page.status_code == 409 and "Nothing was changed" in page.content.decode()
    assert rows() == before


def test_a_form_of_a_transfer_that_is_refused_shows_what_was_sent():
    adapt = learned()
    sent = {"problem": ["real"], "steps": "many"}
    html = client_of("operator").post(f"/adapt/{adapt.pk}/transfer", sent).content.decode()
    assert 'name="problem" value="real"' in html and 'value="many"' in html and "Enter a whole number" in html


def undo(client: Any, entry: AuditEntry, key: str = "u") -> Any:
    return client.post(f"/activity/{entry.pk}/undo", {"key": key})


@pytest.mark.parametrize(
    ("make", "source", "tasks"), [(make_campaign, CAMPAIGNS, {"advance"}), (make_adapt, ADAPTS, {"compose_task"})]
)
def test_the_newest_pause_or_resume_is_undone_and_the_searches_go_on(make, source, tasks, sent):
    batch, operator = make(), client_of("operator")
    if source is CAMPAIGNS:
        CAMPAIGNS.advance(batch.pk)
    kind = source.name
    source.pause(batch, user=None)
    old = AuditEntry.objects.get(verb=f"{kind}.pause")
    assert undo(operator, old).status_code == 302
    batch.refresh_from_db()
    assert batch.state == "running" and {follow_up.task for follow_up in sent} == tasks
    newest = AuditEntry.objects.get(verb=f"{kind}.resume")
    again = undo(operator, old, "again")
    assert again.status_code == 409 and "replaced" in again.content.decode()
    assert undo(operator, newest, "back").status_code == 302
    batch.refresh_from_db()
    assert batch.state == "paused"
    source.stop(batch, user=None)
    late = undo(operator, AuditEntry.objects.filter(verb=f"{kind}.pause").latest("pk"), "late")
    assert late.status_code == 409 and "it has ended" in late.content.decode()
    stopped = undo(operator, AuditEntry.objects.get(verb=f"{kind}.stop"), "stop")
    assert stopped.status_code == 409 and "can&#x27;t be resumed" in stopped.content.decode()


def test_a_resumed_campaign_sends_its_searches_and_starts_what_has_room(sent):
    campaign = make_campaign("a", "b", at_once=2)
    campaign.entries.filter(place=2).update(state="started", run=make_run())
    CAMPAIGNS.pause(campaign, user=None)
    robot = Program("operator")
    assert robot.act(f"campaign.resume/{campaign.pk}").json()["said"] == ["Resumed."]
    old, new = Run.objects.order_by("pk")
    assert [(follow_up.task, follow_up.target) for follow_up in sent] == [("advance", old.pk), ("advance", new.pk)]


def test_an_undo_sends_after_its_transaction(monkeypatch):
    campaign, inside = paused_campaign(), len(connection.savepoint_ids)
    depths: list[int] = []
    monkeypatch.setattr(actions, "send", lambda follow_ups: depths.append(len(connection.savepoint_ids)))
    operator = client_of("operator")
    operator.post(f"/campaigns/{campaign.pk}/resume")
    undo(operator, AuditEntry.objects.get(verb="campaign.resume"))
    undo(operator, AuditEntry.objects.filter(verb="campaign.pause").latest("pk"), "b")
    assert depths == [inside, inside]


def test_a_price_and_its_withdrawal_are_undone_while_they_hold():
    robot, operator = Program("operator"), client_of("operator")
    robot.act("price.set", PRICE)
    row, first = ModelPrice.objects.get(), AuditEntry.objects.get(verb="price.set")
    assert undo(operator, first).status_code == 302
    withdrawn = AuditEntry.objects.get(verb="price.withdraw")
    changed = undo(operator, first, "b")
    assert changed.status_code == 409 and "changed since" in changed.content.decode()
    assert undo(operator, withdrawn, "c").status_code == 302
    row.refresh_from_db()
    assert row.withdrawn_at is None and AuditEntry.objects.filter(verb="price.restore").count() == 1
    row.delete()
    assert undo(operator, first, "d").status_code == 409


def test_a_budget_is_undone_while_it_holds():
    robot, operator = Program("operator"), client_of("operator")
    for fields in (BUDGET, {**BUDGET, "day_usd": "7"}):
        robot.act("spend.budget", fields)
    first, second = AuditEntry.objects.filter(verb="spend.budget").order_by("pk")
    assert undo(operator, first).status_code == 409
    assert undo(operator, second, "b").status_code == 302
    assert SpendBudget.objects.latest("pk").day_usd == 5
    assert undo(operator, first, "c").status_code == 302
    assert SpendBudget.objects.latest("pk").day_usd is None


def test_what_the_budget_did_by_itself_is_told_and_its_pause_is_undone_once(sent):
    run = make_run()
    Run.objects.update(proposer="openai")
    budget_set(day_usd=Decimal(5), month_usd=None, alert_percent=80, pauses=True, user=None)
    money = {"day": timezone.now().date(), "model": "m", "kind": "large", "calls": 1}
    Spending.objects.create(run=run, usd=Decimal(6), **money)
    entry = budget_watch(now=timezone.now())
    operator = client_of("operator")
    html = operator.get("/activity/").content.decode()
    assert "Budget exceeded: paid searches were paused" in html and "Resume what was paused" in html
    assert "$6.00 of $5.00 today" in html
    assert undo(client_of("viewer"), entry).status_code == 403
    assert undo(operator, entry).status_code == 302
    assert [(follow_up.task, follow_up.target) for follow_up in sent] == [("advance", run.pk)]
    again = undo(operator, entry, "b")
    assert again.status_code == 409 and "undone" in again.content.decode()
    for verb in ("spend.alert", "spend.pause.undo"):
        assert undo(operator, AuditEntry.objects.get(verb=verb), verb).status_code == 409


def test_the_files_of_the_log_name_these_objects_and_what_was_done():
    campaign, adapt, row = paused_campaign(), paused_adapt(), price()
    budget_set(day_usd=Decimal(5), month_usd=None, alert_percent=80, pauses=True, user=None)
    acts = client_of("viewer").get("/activity/activity.json").json()["acts"]
    found = {one["verb"]: (one["kind"], one["name"], one["what"]) for one in acts}
    assert found["campaign.pause"] == ("campaign", campaign.title, "Paused")
    assert found["adapt.start"] == ("adapt run", adapt.title, "Started")
    assert found["price.set"] == ("price", f"price of {row.model}", "Set")
    assert found["spend.budget"] == ("budget", "budget of all searches", "Set")


def test_many_entries_cost_as_many_queries_as_few():
    viewer, counts = client_of("viewer"), []
    for more in (1, 4):
        for _ in range(more):
            paused_campaign(), paused_adapt(), price(withdrawn=True)
            budget_set(
                day_usd=Decimal(AuditEntry.objects.count() + 1),
                month_usd=None,
                alert_percent=80,
                pauses=True,
                user=None,
            )
        with CaptureQueriesContext(connection) as queries:
            assert viewer.get("/activity/").status_code == 200
        counts.append(len(queries))
    assert counts[0] == counts[1]


def test_programs_are_told_what_they_leave_out():
    needed = {name: {part for part, one in body_of(name).model_fields.items() if one.is_required()} for name in CASES}
    assert needed["campaign.start"] == set(CAMPAIGN)
    assert needed["adapt.start"] == set(ADAPT)
    assert needed["adapt.transfer"] == {"problem", "steps"}
    assert needed["price.set"] == set(PRICE) and needed["spend.budget"] == {"alert_percent"}
    two_problems()
    answer = Program("operator").act("campaign.start", {name: CAMPAIGN[name] for name in CAMPAIGN if name != "seeds"})
    assert answer.status_code == 422 and "seeds" in answer.json()["fields"] and not Campaign.objects.exists()


def test_forms_of_new_batches_begin_with_the_usual():
    make_device(), make_problem("a")
    operator = client_of("operator")
    for url, values in (("/campaigns/new", ("at_once", "1")), ("/adapt/new", ("tasks", "60"))):
        html = operator.get(url).content.decode()
        assert f'name="{values[0]}" value="{values[1]}"' in html
    assert '<option value="adapt" selected>' in html
    assert not Problem.objects.exclude(slug="a").exists()


def test_the_filter_of_the_log_names_a_verb_by_its_own_action():
    html = client_of("viewer").get("/activity/").content.decode()
    assert '<option value="adapt.start">Start the adapt run</option>' in " ".join(html.split())
