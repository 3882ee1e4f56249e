"""The price table of this installation: the shipped rows, those of the file of LLM_PRICES, those set by people."""

from __future__ import annotations

from dataclasses import dataclass
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


@dataclass(frozen=True)
class Prices:
    """Those of files, and those of people: for models that no file prices."""

    files: PriceTable
    people: PriceTable

    @property
    def rows(self) -> tuple[Price, ...]:
        return self.files.rows + self.people.rows

    def find(self, *, provider: str, model: str, on: date) -> Price | None:
        """The price of the model at that host on that day."""
        known = self.files.find(provider=provider, model=model, on=on)
        return known or self.people.find(provider=provider, model=model, on=on)


def price_table() -> Prices:
    """All rows. Raises BadPrices when the file of LLM_PRICES cannot be used."""
    return Prices(file_prices(), _set_prices())


def _set_prices(**narrow: str) -> PriceTable:
    rows = ModelPrice.objects.filter(withdrawn_at=None, **narrow).order_by("pk")
    return PriceTable(tuple(price_row(row) for row in rows))


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
    provider, name = provider_of(endpoint), model or endpoint.model
    known = file_prices().find(provider=provider, model=name, on=on)
    return known or _set_prices(model=name).find(provider=provider, model=name, on=on)


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
