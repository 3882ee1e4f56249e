"""The price table of this installation: the shipped rows, those of the file of LLM_PRICES, those set by people."""

from __future__ import annotations

from datetime import date
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from adaexplore_site.llm import Completion, Endpoint, endpoint_from_settings
from memory.distil.model import told_by
from search.budget.prices import SHIPPED, BadPrices, Price, PriceTable, read_prices
from search.models import ModelPrice

# What one step of a language model is taken to need at most: two calls, the second when patches do not match.
STEP_TOKENS_IN, STEP_TOKENS_OUT = 24_000, 16_000
SET_HERE = "set on the page Spend"


def price_table() -> PriceTable:
    """All rows; those of people last. Raises BadPrices when the file of LLM_PRICES cannot be used."""
    return file_prices() + PriceTable(tuple(price_row(row) for row in ModelPrice.objects.filter(withdrawn_at=None)))


def file_prices() -> PriceTable:
    """The rows of both files. Raises BadPrices."""
    return _table(str(settings.LLM_PRICES))


def price_row(row: ModelPrice) -> Price:
    """A price that a person set, as the table has it."""
    return Price(
        provider="",
        model=row.model,
        usd_per_m_in=row.usd_per_m_in,
        usd_per_m_out=row.usd_per_m_out,
        valid_from=row.valid_from,
        noted=row.created_at.date().isoformat(),
        source=row.source or SET_HERE,
    )


@cache
def _table(extra: str) -> PriceTable:
    return read_prices([SHIPPED, *([Path(extra).expanduser()] if extra else [])])


def provider_of(endpoint: Endpoint) -> str:
    """The host that is asked, as price rows name it."""
    return urlsplit(endpoint.url).hostname or ""


def price_of(*, model: str, on: date, endpoint: Endpoint | None = None) -> Price | None:
    """The price of a model at the configured endpoint on that day; None when nobody has given one."""
    endpoint = endpoint or endpoint_from_settings()
    return price_table().find(provider=provider_of(endpoint), model=model or endpoint.model, on=on)


def call_of(answer: Completion) -> dict[str, Any]:
    """What a call outside of a search has used, priced by the table where the endpoint names no price."""
    call = told_by(answer)
    if call["usd"] is None and answer.tokens_in is not None and answer.tokens_out is not None:
        try:
            price = price_of(model=answer.model, on=timezone.now().date())
        except BadPrices:
            price = None
        if price is not None:
            call["usd"] = str(price.usd(answer.tokens_in, answer.tokens_out))
    return call
