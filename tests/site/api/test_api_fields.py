"""Every field that the API takes for an act is one that the act's view reads, and is stored as it was sent."""

from __future__ import annotations

import pytest

from adaexplore_site.actions.registry import actions
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.saved_views.models import SavedView
from search.ledger.models import ModelPrice, SpendBudget
from search.rechecks.models import Recheck
from tests.search.kernel_rows import gpu_run, kernel
from tests.site.api.asked import asked
from tests.site.api.test_api_acts import Program, place

pytestmark = pytest.mark.django_db
ROOMS = ("kernel", "spend", "price", "view")
VALUES = {
    "reason": "the tail is not masked", "day_usd": "5.25", "month_usd": "50.00", "alert_percent": 71, "pauses": True,
    "model": "house-1", "usd_per_m_in": "1.250000", "usd_per_m_out": "2.500000", "source": "its page",
    "place": "run-list", "query": "q=relu", "shared": True,
}  # fmt: skip
ORDER = (
    "kernel.release",
    "kernel.recheck.cancel",
    "view.rename",
    "view.delete",
    "view.restore",
    "price.withdraw",
    "price.restore",
)
STORED = {
    "kernel.dispute": Recheck, "spend.budget": SpendBudget, "price.set": ModelPrice, "view.save": SavedView,
    "view.rename": SavedView,
}  # fmt: skip
CALLED = {"reason": "note"}


def test_every_field_that_an_act_asks_for_is_read_and_stored_as_sent(monkeypatch):
    monkeypatch.setattr("search.records.queue.send", lambda follow_ups: None)
    run, robot = gpu_run(), Program("operator")
    mine, rival = kernel(run, 2.0), kernel(run, 2.1)
    acts = [act for act in actions() if act.name.partition(".")[0] in ROOMS]
    for act in sorted(acts, key=lambda act: ORDER.index(act.name) if act.name in ORDER else -1):
        last = {"view_id": SavedView.objects.last(), "price_id": ModelPrice.objects.last()}
        values = {"run_id": run.pk, "number": mine.number, **{name: row.pk for name, row in last.items() if row}}
        known = {**VALUES, "rival": f"{run.pk}.{rival.number}", "name": act.name}
        known |= {"recheck": getattr(Recheck.objects.order_by("pk").last(), "pk", 0)}
        sent = {ask.name: known[ask.name] for ask in asked(act.name)}
        before = AuditEntry.objects.count()
        answer = robot.client.post(place(act, values), sent, "application/json")
        assert answer.status_code == 200 and AuditEntry.objects.count() == before + 1, (act.name, answer.content)
        assert stored(act.name, sent) == {name: str(value) for name, value in sent.items()}, act.name
    assert {action.name for action in actions()} >= {*ORDER, *STORED}


def stored(act: str, sent: dict[str, object]) -> dict[str, str]:
    """The values of an act's row, or of its audit, under the names of what was sent."""
    if act in STORED:
        row = STORED[act].objects.order_by("pk").last()
        return {name: str(getattr(row, CALLED.get(name, name))) for name in sent}
    after = AuditEntry.objects.latest("id").after
    return {name: str(after["doubt_reason" if name == "reason" else name]) for name in sent}
