"""Every field that the API takes for an act is one that the act's view reads, and is stored as it was sent."""

from __future__ import annotations

import pytest

from adaexplore_site.models import Action
from adaexplore_site.registry.acts import ACTS, acts_by_id
from adaexplore_site.registry.asks import ASKS
from search.models import ModelPrice, Recheck, SavedView, SpendBudget
from search.views import kernel_acts
from tests.search.kernel_rows import gpu_run, kernel
from tests.site.test_api_acts import Program, place

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
    monkeypatch.setattr(kernel_acts, "send", lambda hops: None)
    run, robot = gpu_run(), Program("operator")
    mine, rival = kernel(run, 2.0), kernel(run, 2.1)
    acts = [act for act in ACTS if act.id.partition(".")[0] in ROOMS]
    for act in sorted(acts, key=lambda act: ORDER.index(act.id) if act.id in ORDER else -1):
        last = {"view_id": SavedView.objects.last(), "price_id": ModelPrice.objects.last()}
        values = {"run_id": run.pk, "number": mine.number, **{name: row.pk for name, row in last.items() if row}}
        known = {**VALUES, "rival": f"{run.pk}.{rival.number}", "name": act.id}
        known |= {"recheck": getattr(Recheck.objects.order_by("pk").last(), "pk", 0)}
        sent = {ask.name: known[ask.name] for ask in ASKS[act.id]}
        before = Action.objects.count()
        answer = robot.client.post(place(act, values), sent, "application/json")
        assert answer.status_code == 200 and Action.objects.count() == before + 1, (act.id, answer.content)
        assert stored(act.id, sent) == {name: str(value) for name, value in sent.items()}, act.id
    assert acts_by_id().keys() >= {*ORDER, *STORED}


def stored(act: str, sent: dict[str, object]) -> dict[str, str]:
    """The values of an act's row, or of its audit, under the names of what was sent."""
    if act in STORED:
        row = STORED[act].objects.order_by("pk").last()
        return {name: str(getattr(row, CALLED.get(name, name))) for name in sent}
    after = Action.objects.latest("id").after
    return {name: str(after["doubt_reason" if name == "reason" else name]) for name in sent}
