"""Prices by dated rows: the newest that is valid, the host's own first, and an unknown model has none."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal

import pytest

from search.budget.prices import SHIPPED, BadPrices, Price, PriceTable, read_prices

DAY = date(2026, 1, 1)


def row(model="m", provider="", usd="1", since="2025-01-01") -> Price:
    return Price(provider, model, Decimal(usd), Decimal(usd), date.fromisoformat(since))


def test_the_newest_price_that_is_valid_counts():
    table = PriceTable((row(usd="3", since="2026-06-01"), row(usd="2", since="2025-06-01"), row(usd="1")))
    assert table.find(provider="h", model="m", on=DAY).usd_per_m_in == 2


def test_a_price_of_the_host_goes_before_one_for_any_host():
    table = PriceTable((row(provider="h", usd="5"), row(usd="1", since="2025-12-01")))
    assert table.find(provider="h", model="m", on=DAY).usd_per_m_in == 5
    assert table.find(provider="other", model="m", on=DAY).usd_per_m_in == 1


@pytest.mark.parametrize("model", ["n", "m-2", "M", ""])
def test_another_model_has_no_price(model):
    assert PriceTable((row(),)).find(provider="h", model=model, on=DAY) is None


def test_a_price_before_its_day_is_not_known():
    assert PriceTable((row(since="2026-01-02"),)).find(provider="h", model="m", on=DAY) is None


def test_a_call_costs_its_tokens_rounded_up_to_a_millionth():
    price = Price("", "m", Decimal("2.5"), Decimal("10"), DAY)
    assert price.usd(1000, 100) == Decimal("0.003500")
    assert price.usd(1, 0) == Decimal("0.000003")


def test_the_shipped_table_reads_and_every_row_says_when_it_was_noted():
    table = read_prices([SHIPPED])
    assert table.rows and all(price.noted and price.provider for price in table.rows)


def test_a_later_file_wins(tmp_path):
    mine = {"provider": "", "model": "m", "usd_per_m_in": 7, "usd_per_m_out": 8, "valid_from": "2025-01-01"}
    (tmp_path / "p.json").write_text(json.dumps({"prices": [mine]}))
    table = PriceTable((row(),)) + read_prices([tmp_path / "p.json"])
    assert table.find(provider="h", model="m", on=DAY).usd_per_m_out == 8


@pytest.mark.parametrize("text", ["", "[]", '{"prices": [{"model": "m"}]}', '{"prices": ["x"]}', '{"prices": 4}'])
def test_a_file_that_is_none_names_itself(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(BadPrices, match=r"p\.json"):
        read_prices([tmp_path / "p.json"])


def test_a_missing_file_names_itself(tmp_path):
    with pytest.raises(BadPrices, match="cannot be read"):
        read_prices([tmp_path / "none.json"])
