"""Prices of this installation: of the file of LLM_PRICES, set by people, else listed by a package."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.utils import timezone

from adaexplore_site.core.llm import Completion, Endpoint, endpoint_from_settings
from memory.distil.model import told_by
from search.ledger.listed import listed_price
from search.ledger.models import ModelPrice
from search.ledger.prices import BadPrices, Price, PriceTable, read_prices

# What one step of a language model is taken to need at most: two calls, the second when patches do not match.
STEP_TOKENS_IN, STEP_TOKENS_OUT = 24_000, 16_000
SET_HERE = "set on the page Spend"


@dataclass(frozen=True)
class Prices:
    """At one endpoint: the file's first, then those of people, then those that a package lists."""

    endpoint: Endpoint
    file: PriceTable
    people: PriceTable

    @property
    def rows(self) -> tuple[Price, ...]:
        """What this installation sets itself."""
        return self.file.rows + self.people.rows

    def find(self, *, model: str, on: date) -> Price | None:
        """The price of the model on that day."""
        provider = provider_of(self.endpoint)
        known = self.file.find(provider=provider, model=model, on=on)
        known = known or self.people.find(provider=provider, model=model, on=on)
        return known or listed_price(url=self.endpoint.url, model=model, on=on)


def price_table() -> Prices:
    """All prices. Raises BadPrices when the file of LLM_PRICES cannot be used."""
    return Prices(endpoint_from_settings(), file_prices(), _set_prices())


def _set_prices(**narrow: str) -> PriceTable:
    rows = ModelPrice.objects.filter(withdrawn_at=None, **narrow).order_by("pk")
    return PriceTable(tuple(price_row(row) for row in rows))


def file_prices() -> PriceTable:
    """The rows of the file of LLM_PRICES. Raises BadPrices."""
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
    return read_prices([Path(extra).expanduser()] if extra else [])


def provider_of(endpoint: Endpoint) -> str:
    """The host that is asked, as price rows name it."""
    return urlsplit(endpoint.url).hostname or ""


def price_of(*, model: str, on: date, endpoint: Endpoint | None = None) -> Price | None:
    """The price of a model at the configured endpoint on that day; None when nobody has given one."""
    endpoint = endpoint or endpoint_from_settings()
    provider, name = provider_of(endpoint), model or endpoint.model
    known = file_prices().find(provider=provider, model=name, on=on)
    known = known or _set_prices(model=name).find(provider=provider, model=name, on=on)
    return known or listed_price(url=endpoint.url, model=name, on=on)


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
