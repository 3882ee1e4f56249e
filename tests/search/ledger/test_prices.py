"""Prices by dated rows: the newest that is valid, the host's own first, and an unknown model has none."""

from __future__ import annotations

import json
import socket
import tomllib
from datetime import date
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path

import pytest

from search.ledger.prices import PACKAGE, RELEASED, BadPrices, ListedPrice, Price, PriceTable, listed_price, read_prices

DAY = date(2026, 1, 1)
OPENAI = "https://api.openai.com/v1"


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


@pytest.mark.parametrize(
    ("model", "usd_in", "usd_out"),
    [
        ("gpt-4o-2024-08-06", "2.50", "10.00"),
        ("gpt-4o-mini-2024-07-18", "0.15", "0.60"),
        ("gpt-4.1-2025-04-14", "2.00", "8.00"),
        ("gpt-4.1-mini-2025-04-14", "0.40", "1.60"),
    ],
)
def test_models_whose_price_the_product_shipped_have_it_from_the_list(model, usd_in, usd_out):
    price = listed_price(url=OPENAI, model=model, on=DAY)
    assert (price.usd_per_m_in, price.usd_per_m_out) == (Decimal(usd_in), Decimal(usd_out))
    assert price.usd(24_000, 16_000) == (Decimal(usd_in) * 24 + Decimal(usd_out) * 16) / 1000


def test_a_listed_price_says_where_it_comes_from_and_when_it_was_read():
    price = listed_price(url=OPENAI, model="gpt-4.1-2025-04-14", on=DAY)
    assert price.source == f"genai-prices {version(PACKAGE)}, gpt-4.1" and price.noted == RELEASED.isoformat()
    assert price.provider == "api.openai.com" and price.valid_from is None


def test_the_list_is_the_version_whose_day_is_known():
    """Whoever takes a newer one sets RELEASED, too."""
    project = tomllib.loads((Path(__file__).resolve().parents[3] / "pyproject.toml").read_text())
    pin = next(one for one in project["project"]["dependencies"] if one.startswith(PACKAGE))
    assert pin == f"{PACKAGE}=={version(PACKAGE)}" and (pin, RELEASED) == ("genai-prices==0.2.3", date(2026, 11, 10))


@pytest.mark.parametrize(
    ("url", "model"),
    [
        ("http://127.0.0.1:8080/v1", "gpt-4.1-2025-04-14"),  # whoever serves it here sets the price
        ("https://llm.example/v1", "gpt-4.1-2025-04-14"),
        (OPENAI, "no-such-model"),
        (OPENAI, ""),
        ("", "gpt-4.1-2025-04-14"),
        ("https://api.deepseek.com", "deepseek-chat"),  # changes with the time of day
        (OPENAI, "text-embedding-3-small"),  # has no price for what it answers
    ],
)
def test_what_is_not_listed_has_no_price(url, model):
    assert listed_price(url=url, model=model, on=DAY) is None


def test_a_long_prompt_costs_what_the_list_says_of_long_ones():
    price = listed_price(url="https://generativelanguage.googleapis.com/v1beta", model="gemini-2.5-pro", on=DAY)
    short, long = price.usd(100_000, 0), price.usd(400_000, 0)
    assert short == price.usd_per_m_in / 10 and long > 4 * short


def test_the_list_is_read_without_a_network(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a price was looked up over the network")

    monkeypatch.setattr(socket, "socket", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    listed_price.cache_clear()
    assert isinstance(listed_price(url=OPENAI, model="gpt-4o-2024-08-06", on=DAY), ListedPrice)


def test_a_later_file_wins(tmp_path):
    mine = {"provider": "", "model": "m", "usd_per_m_in": 7, "usd_per_m_out": 8, "valid_from": "2025-01-01"}
    (tmp_path / "p.json").write_text(json.dumps({"prices": [mine]}))
    table = PriceTable((row(), *read_prices(tmp_path / "p.json").rows))
    assert table.find(provider="h", model="m", on=DAY).usd_per_m_out == 8


@pytest.mark.parametrize("text", ["", "[]", '{"prices": [{"model": "m"}]}', '{"prices": ["x"]}', '{"prices": 4}'])
def test_a_file_that_is_none_names_itself(tmp_path, text):
    (tmp_path / "p.json").write_text(text)
    with pytest.raises(BadPrices, match=r"p\.json"):
        read_prices(tmp_path / "p.json")


def test_a_missing_file_names_itself(tmp_path):
    with pytest.raises(BadPrices, match="cannot be read"):
        read_prices(tmp_path / "none.json")
