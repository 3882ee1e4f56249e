"""Prices that people set: before listed ones, for later calls only, withdrawn and used again."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from decimal import Decimal

import pytest
from django.db.models import Q
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from search.ledger import prices as spend_prices
from search.ledger.models import ModelPrice, Spending
from search.ledger.prices import Price, PriceTable, price_of, price_set, price_table
from search.ledger.spending import Period, spending, spent
from tests.pages import HOSTILE, client_of
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db

FORM = {"model": "mine", "usd_per_m_in": "1.5", "usd_per_m_out": "6", "source": HOSTILE}


def test_a_set_price_counts_from_its_day_and_is_kept_with_who_set_it():
    operator = client_of("operator", "olga")
    for _ in range(2):
        assert operator.post("/spend/prices", {**FORM, "key": "k"}).status_code == 302
    row, today = ModelPrice.objects.get(), timezone.now().date()
    price = price_of(model="mine", on=today)
    assert price.usd(1_000_000, 0) == Decimal("1.5") and row.set_by.username == "olga"
    assert price_of(model="mine", on=today.replace(year=today.year - 1)) is None
    html = operator.get("/spend/").content.decode()
    assert "olga" in html and "<img src=x" not in html


def test_calls_before_it_stay_unknown_and_are_estimated_apart():
    run, day = make_run(), timezone.now().date()
    row = {"run": run, "day": day, "kind": "large", "calls": 2, "unpriced": 2}
    Spending.objects.create(model="mine", tokens_in=1_000_000, tokens_out=0, **row)
    Spending.objects.create(model="other", tokens_in=1, untold=1, **row)
    assert spending("search", Period()).estimate is None
    client_of("operator").post("/spend/prices", FORM)
    found = spending("search", Period())
    assert (found.total.money, found.estimate.usd, found.estimate.calls) == ("unknown (4 calls unpriced)", 1.5, 2)
    assert found.priceless == ("other",) and found.unlisted == ("mine", "other")


def test_a_withdrawn_price_is_used_no_longer_and_can_be_again():
    operator, today = client_of("operator"), timezone.now().date()
    operator.post("/spend/prices", FORM)
    address = f"/spend/prices/{ModelPrice.objects.get().pk}/withdraw"
    for withdrawn, known in (("1", False), ("", True)):
        assert operator.post(address, {"withdrawn": withdrawn}).status_code == 302
        assert (price_of(model="mine", on=today) is not None) == known


@pytest.mark.parametrize(
    ("changes", "status"), [({"model": " "}, 422), ({"usd_per_m_in": "-1"}, 422), ({"usd_per_m_out": "1e9"}, 409)]
)
def test_a_price_that_is_none_is_refused(changes, status):
    assert client_of("operator").post("/spend/prices", {**FORM, **changes}).status_code == status
    assert not ModelPrice.objects.exists()


def test_a_model_that_a_file_prices_is_left_to_the_file(tmp_path, settings):
    row = '{"model": "mine", "usd_per_m_in": "1", "usd_per_m_out": "1", "valid_from": "2025-01-01"}'
    (tmp_path / "p.json").write_text(f'{{"prices": [{row}]}}')
    settings.LLM_PRICES = tmp_path / "p.json"
    answer = client_of("operator").post("/spend/prices", FORM)
    assert answer.status_code == 409 and "already has a price in a file" in answer.content.decode()


def test_what_a_file_names_later_goes_before_what_a_person_set(tmp_path, settings):
    client_of("operator").post("/spend/prices", FORM)
    today = timezone.now().date()
    assert price_of(model="mine", on=today).usd_per_m_in == Decimal("1.5")
    row = '{"model": "mine", "usd_per_m_in": "1", "usd_per_m_out": "1", "valid_from": "2025-01-01"}'
    (tmp_path / "p.json").write_text(f'{{"prices": [{row}]}}')
    settings.LLM_PRICES = tmp_path / "p.json"
    assert price_of(model="mine", on=today).usd_per_m_in == 1
    assert price_table().find(model="mine", on=today).usd_per_m_in == 1


def test_a_price_in_a_file_for_another_host_stands_in_nobody_s_way(monkeypatch):
    price = Price("elsewhere.example", "mine", Decimal(1), Decimal(1), date(2020, 1, 1))
    monkeypatch.setattr(spend_prices, "file_prices", lambda: PriceTable((price,)))
    given = {"model": "mine", "usd_per_m_in": Decimal(1), "usd_per_m_out": Decimal(2), "user": None}
    assert price_set(on=timezone.now().date(), **given) is not None
    monkeypatch.setattr(spend_prices, "file_prices", lambda: PriceTable((replace(price, provider=""),)))
    with pytest.raises(ActionRefused, match="in a file"):
        price_set(on=timezone.now().date(), **given)


def test_the_cost_of_a_search_is_said_to_the_millionth_at_most():
    run, day = make_run(), timezone.now().date()
    for n, usd in enumerate(("0.1", "0.2")):
        Spending.objects.create(run=run, day=day, model=f"m{n}", kind="large", calls=1, usd=Decimal(usd))
    assert str(spent(Q(run=run)).usd) == "0.300000"


def test_a_price_that_a_person_sets_goes_before_a_listed_one(settings):
    settings.LLM_BASE_URL, today = "https://api.openai.com/v1", timezone.now().date()
    model, operator = "gpt-4.1-2025-04-14", client_of("operator")
    assert price_of(model=model, on=today).usd_per_m_in == 2
    assert operator.post("/spend/prices", {**FORM, "model": model}).status_code == 302
    assert price_of(model=model, on=today).usd_per_m_in == Decimal("1.5")
    operator.post(f"/spend/prices/{ModelPrice.objects.get().pk}/withdraw", {"withdrawn": "1"})
    assert price_of(model=model, on=today).usd_per_m_in == 2


def test_the_page_dates_the_listed_prices_of_the_models_that_were_called(settings):
    settings.LLM_BASE_URL = "https://api.openai.com/v1"
    row = {"run": make_run(), "day": timezone.now().date(), "kind": "large", "calls": 1, "usd": Decimal(1)}
    Spending.objects.create(model="gpt-4.1-2025-04-14", **row)
    html = client_of("viewer").get("/spend/").content.decode()
    assert "2026-11-10" in html and "genai-prices" in html and "$2.00" not in html
    assert [price.model for price in spending("search", Period()).prices] == ["gpt-4.1-2025-04-14"]
