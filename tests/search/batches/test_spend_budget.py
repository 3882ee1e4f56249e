"""The budget of all searches: what counts, what an alert and a passed budget do, and how each is taken back."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.utils import timezone

from adaexplore_site.core.models import AuditEntry
from memory.adapt.models import AdaptRun, AdaptTask
from search.batches.budgets import budget_pause_undo, budget_set, budget_watch
from search.batches.campaigns import CAMPAIGNS
from search.batches.models import Campaign
from search.ledger.models import SpendBudget, Spending
from search.ledger.spending import standing_of
from search.records.models import Run
from search.runs.services import run_resume
from tests.pages import client_of
from tests.search.adapt_rows import make_adapt
from tests.search.campaign_rows import make_campaign
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def paid(run: Run, usd: str | None, *, days: int = 0) -> None:
    day = timezone.now().date() - timedelta(days=days)
    money = {"usd": Decimal(usd or 0), "unpriced": int(usd is None), "calls": 1}
    Spending.objects.create(run=run, day=day, model=f"m{Spending.objects.count()}", kind="large", **money)


def budget(**changes) -> SpendBudget | None:
    given = {"day_usd": Decimal(5), "month_usd": None, "alert_percent": 80, "pauses": True, "user": None}
    return budget_set(**{**given, **changes})


def paying_run(**changes) -> Run:
    run = make_run(**changes)
    Run.objects.filter(pk=run.pk).update(proposer="openai")
    run.refresh_from_db()
    return run


def test_the_alert_comes_at_its_share_and_says_at_least_where_calls_are_unpriced():
    run = paying_run()
    budget()
    paid(run, "3.99")
    assert standing_of(timezone.now()).alarmed == []
    paid(run, "0.01")
    paid(run, None)
    (share,) = standing_of(timezone.now()).alarmed
    assert share.said == "At least 80 % of the budget is spent: at least $4.00 of $5.00 today."
    html = client_of("viewer").get("/problems/").content.decode()
    assert "at least $4.00 of $5.00" in html and "Most of the budget is spent" in html


def test_an_alert_and_a_passed_budget_are_each_told_once():
    run = paying_run()
    budget(pauses=False)
    for usd in ("4.5", "1"):
        paid(run, usd)
        for _ in range(2):
            assert budget_watch(now=timezone.now()) is None
    said = AuditEntry.objects.filter(verb="spend.alert").order_by("pk").values_list("after__reason", flat=True)
    assert list(said) == [
        "90 % of the budget is spent: $4.50 of $5.00 today.",
        "The budget is exceeded: $5.50 of $5.00 today.",
    ]
    html = client_of("viewer", "vera").get("/notifications/").content.decode()
    assert "The budget is exceeded: $5.50 of $5.00 today." in html


def test_yesterday_counts_for_the_month_alone():
    run, now = paying_run(), timezone.now().replace(day=15)
    day = now.date()
    for back, usd in ((0, "1"), (1, "2"), (20, "4")):
        Spending.objects.create(run=run, day=day - timedelta(days=back), kind="large", calls=1, usd=Decimal(usd))
    standing = standing_of(now)
    assert (standing.day.amount.usd, standing.month.amount.usd) == (1, 3)


def test_a_passed_budget_pauses_nothing_unless_asked():
    run = paying_run()
    budget(pauses=False)
    paid(run, "9")
    assert budget_watch(now=timezone.now()) is None
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING


def test_a_passed_budget_pauses_what_pays_with_the_reason_and_nothing_twice():
    run, free = paying_run(), make_run(seed=2)
    budget()
    paid(run, "5.01")
    assert budget_watch(now=timezone.now()) is not None
    run.refresh_from_db()
    free.refresh_from_db()
    assert (run.state, free.state) == ("paused", "running")
    assert "The budget is exceeded: $5.01 of $5.00 today." in run.stop_reason
    run_resume(run=run, user=None)
    assert budget_watch(now=timezone.now()) is None  # a person wanted it
    late = paying_run(seed=3)
    act = budget_watch(now=timezone.now())
    assert act is not None and act.after["runs"] == [late.pk]


def test_the_pause_is_in_activity_and_undone_there():
    run = paying_run()
    budget()
    paid(run, "6")
    act = budget_watch(now=timezone.now())
    operator = client_of("operator")
    assert "Budget exceeded: paid searches were paused" in operator.get("/activity/").content.decode()
    for _ in range(2):
        assert operator.post(f"/activity/{act.pk}/undo", {"key": "k"}).status_code == 302
    run.refresh_from_db()
    assert run.state == "running" and budget_watch(now=timezone.now()) is None
    assert AuditEntry.objects.filter(verb="spend.pause.undo").count() == 1


def test_the_form_sets_it_once_and_undo_puts_the_former_back():
    operator = client_of("operator")
    form = {"day_usd": "5", "month_usd": "", "alert_percent": "70", "pauses": "on", "key": "a"}
    for _ in range(2):
        assert operator.post("/spend/budget", form).status_code == 302
    act = AuditEntry.objects.get(verb="spend.budget")
    assert act.before["day_usd"] is None and act.after["day_usd"] == "5.00" and act.after["pauses"] is True
    operator.post(f"/activity/{act.pk}/undo", {"key": "b"})
    row = SpendBudget.objects.order_by("-pk").first()
    assert (row.day_usd, row.pauses) == (None, False)


@pytest.mark.parametrize("fields", [{"day_usd": "-1"}, {"day_usd": "x"}, {"alert_percent": "0"}, {"alert_percent": ""}])
def test_a_budget_that_is_none_is_refused_with_the_form(fields):
    answer = client_of("operator").post("/spend/budget", {"day_usd": "5", "alert_percent": "80", **fields})
    assert answer.status_code == 422 and "field-error" in answer.content.decode()
    assert not SpendBudget.objects.exists()


def test_a_campaign_that_a_person_resumes_is_not_paused_again_nor_are_its_new_searches():
    campaign = make_campaign("relu", "gelu", at_once=1)
    CAMPAIGNS.advance_all()
    first = Run.objects.get()
    Campaign.objects.update(proposer="openai")
    Run.objects.update(proposer="openai")
    budget()
    paid(first, "6")
    act = budget_watch(now=timezone.now())
    assert (act.after["campaigns"], act.after["runs"], act.after["within"]) == ([campaign.pk], [], [first.pk])
    page = client_of("viewer").get(f"/campaigns/{campaign.pk}/").content.decode()
    assert "The budget is exceeded: $6.00 of $5.00 today." in page
    budget_pause_undo(action=act, user=None)
    late = paying_run(seed=3)
    campaign.entries.filter(run=None).update(run=late, state="started")
    assert budget_watch(now=timezone.now()) is None
    assert set(Run.objects.values_list("state", flat=True)) == {"running"}


def test_the_searches_of_a_resumed_adapt_run_go_on():
    adapt, run = make_adapt(), paying_run()
    AdaptTask.objects.create(adapt=adapt, place=1, state="started", control=run)
    AdaptRun.objects.update(proposer="openai")
    budget()
    paid(run, "6")
    budget_pause_undo(action=budget_watch(now=timezone.now()), user=None)
    assert budget_watch(now=timezone.now()) is None
    run.refresh_from_db()
    assert run.state == "running"
