"""Prices of models: from the file of LLM_PRICES, set by people, else listed by the package genai-prices.

A model without a row has no price: unknown, never zero.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation
from functools import cache, lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import urlsplit

from django.conf import settings
from django.db import transaction
from django.utils import timezone
from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.llm import Completion, Endpoint, endpoint_from_settings
from adaexplore_site.core.text import clip, storable_text
from memory.distil.distillers import told_by
from search.ledger.models import ModelPrice

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser
    from genai_prices.types import ModelPrice as Listing


MILLION = Decimal(1_000_000)
_MICRO = Decimal("0.000001")  # what a Proposal row keeps
_REQUIRED = ("model", "usd_per_m_in", "usd_per_m_out", "valid_from")


class BadPrices(ValueError):
    """A price file cannot be read; the message names the file, the row and what is wrong."""


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens from a day on; None: since always. `provider` is the endpoint's host; empty: any.
    `noted` is the day on which the price was read, `source` where."""

    provider: str
    model: str
    usd_per_m_in: Decimal
    usd_per_m_out: Decimal
    valid_from: date | None
    noted: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        if not self.model:
            raise ValueError("model is empty")
        if not all(price.is_finite() and price >= 0 for price in (self.usd_per_m_in, self.usd_per_m_out)):
            raise ValueError("a price is at least 0")

    def usd(self, tokens_in: int, tokens_out: int) -> Decimal:
        """Dollars for these tokens, rounded up to a millionth."""
        return rounded_up((self.usd_per_m_in * tokens_in + self.usd_per_m_out * tokens_out) / MILLION)

    @classmethod
    def from_json(cls, row: dict[str, Any]) -> Self:
        """One row of a file. Raises ValueError with what is wrong."""
        missing = [name for name in _REQUIRED if name not in row]
        if missing:
            raise ValueError(f"{', '.join(missing)} missing")
        try:
            price_in, price_out = Decimal(str(row["usd_per_m_in"])), Decimal(str(row["usd_per_m_out"]))
        except InvalidOperation:
            raise ValueError("usd_per_m_in and usd_per_m_out must be numbers, best as texts") from None
        day = date.fromisoformat(str(row["valid_from"]))
        return cls(
            provider=str(row.get("provider", "")),
            model=str(row["model"]),
            usd_per_m_in=price_in,
            usd_per_m_out=price_out,
            valid_from=day,
            noted=str(row.get("noted", "")),
            source=str(row.get("source", "")),
        )


def rounded_up(usd: Decimal) -> Decimal:
    """Dollars to the next millionth."""
    return usd.quantize(_MICRO, rounding="ROUND_CEILING")


@dataclass(frozen=True)
class PriceTable:
    """Rows in order; a later row wins over an earlier one of the same day."""

    rows: tuple[Price, ...] = ()

    def find(self, *, provider: str, model: str, on: date) -> Price | None:
        """The newest price of the model at that host on that day; a row for the host goes before one for any."""
        fitting = [
            (row.provider != "", row.valid_from or date.min, place, row)
            for place, row in enumerate(self.rows)
            if row.model == model and row.provider in ("", provider) and (row.valid_from or date.min) <= on
        ]
        return max(fitting)[3] if fitting else None


def read_prices(path: Path) -> PriceTable:
    """The table of a file. Raises BadPrices."""
    try:
        rows = list(json.loads(path.read_text())["prices"])
    except OSError as error:
        raise BadPrices(f"The price file {path} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError) as error:
        raise BadPrices(f'{path} is not a price file: it must be JSON like {{"prices": [...]}} ({error}).') from error
    found = []
    for place, row in enumerate(rows, start=1):
        try:
            found.append(Price.from_json(row))
        except (ValueError, TypeError) as error:
            raise BadPrices(f"{path}, price {place}: {error}. Each needs {', '.join(_REQUIRED)}.") from error
    return PriceTable(tuple(found))


PACKAGE = "genai-prices"
RELEASED = date(2026, 11, 10)  # of the version that pyproject.toml pins; the package does not tell it


@dataclass(frozen=True)
class ListedPrice(Price):
    """A price of the list. What it says per million tokens is for short prompts; long ones may cost more."""

    listed: Listing | None = field(default=None, repr=False, compare=False)

    def usd(self, tokens_in: int, tokens_out: int) -> Decimal:
        """Dollars for these tokens by the list's own rule, rounded up to a millionth."""
        from genai_prices import Usage

        assert self.listed is not None
        usage = Usage(input_tokens=tokens_in, output_tokens=tokens_out)
        return rounded_up(self.listed.calc_price(usage)["total_price"])


def source() -> str:
    """`genai-prices 0.2.3`."""
    return f"{PACKAGE} {version(PACKAGE)}"


@lru_cache(maxsize=1024)
def listed_price(*, url: str, model: str, on: date) -> ListedPrice | None:
    """The price of a model at that endpoint on that day.

    None for an endpoint or a model that is not listed, and where the price changes with the time of day.
    """
    from genai_prices.data_snapshot import get_snapshot
    from genai_prices.types import StartDateConstraint, TieredPrices, TimeOfDateConstraint

    try:
        _, found = get_snapshot().find_provider_model(model, None, None, url)
    except LookupError:
        return None
    dated = found.prices if isinstance(found.prices, list) else []
    if any(isinstance(one.constraint, TimeOfDateConstraint) for one in dated):
        return None
    starts = [one.constraint.start_date for one in dated if isinstance(one.constraint, StartDateConstraint)]
    price = found.get_prices(datetime.combine(on, time(12), UTC))
    into, out = (one.base if isinstance(one, TieredPrices) else one for one in (price.input_mtok, price.output_mtok))
    if into is None or out is None:
        return None
    return ListedPrice(
        provider=urlsplit(url).hostname or "",
        model=model,
        usd_per_m_in=into,
        usd_per_m_out=out,
        valid_from=max((day for day in starts if day <= on), default=None),
        noted=RELEASED.isoformat(),
        source=f"{source()}, {found.id}",
        listed=price,
    )


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
        tables = (table.find(provider=provider, model=model, on=on) for table in (self.file, self.people))
        return next(filter(None, tables), None) or listed_price(url=self.endpoint.url, model=model, on=on)


def price_table(endpoint: Endpoint | None = None, **narrow: str) -> Prices:
    """All prices, or of those that people set the ones of a model. Raises BadPrices when the file of LLM_PRICES cannot
    be used."""
    rows = ModelPrice.objects.filter(withdrawn_at=None, **narrow).order_by("pk")
    return Prices(endpoint or endpoint_from_settings(), file_prices(), PriceTable(tuple(map(price_row, rows))))


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
    return read_prices(Path(extra).expanduser()) if extra else PriceTable()


def provider_of(endpoint: Endpoint) -> str:
    """The host that is asked, as price rows name it."""
    return urlsplit(endpoint.url).hostname or ""


def price_of(*, model: str, on: date, endpoint: Endpoint | None = None) -> Price | None:
    """The price of a model at the configured endpoint on that day; None when none is known."""
    endpoint = endpoint or endpoint_from_settings()
    name = model or endpoint.model
    return price_table(endpoint, model=name).find(model=name, on=on)


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


SET, WITHDRAW, BACK = "price.set", "price.withdraw", "price.restore"
MOST_USD = Decimal(100_000)  # for a million tokens


def price_set(
    *,
    model: str,
    usd_per_m_in: Decimal,
    usd_per_m_out: Decimal,
    on: date,
    source: str = "",
    user: AbstractBaseUser | None,
    key: str | None = None,
) -> ModelPrice | None:
    """A price from the day `on` (today). A later one replaces it. None for a repeated submit, and where the last
    price that was set says the same.

    Raises ActionRefused where the file of LLM_PRICES names a price already, and for a price that is none.
    """
    model = clip(storable_text(model).strip(), 120)
    if not model:
        raise ActionRefused(_("Enter the model name as its calls use it."))
    for refusal, usd in (
        (_("The price in must be from $0 to $%(most)s for a million tokens."), usd_per_m_in),
        (_("The price out must be from $0 to $%(most)s for a million tokens."), usd_per_m_out),
    ):
        if not (usd.is_finite() and 0 <= usd <= MOST_USD):
            raise ActionRefused(refusal % {"most": f"{MOST_USD:,}"})
    _check_files(model, on)
    with transaction.atomic():
        if action_done(key=key, verb=SET) is not None:
            return None
        price = {"usd_per_m_in": usd_per_m_in.quantize(_MICRO), "usd_per_m_out": usd_per_m_out.quantize(_MICRO)}
        where = clip(storable_text(source).strip(), 200)
        if _stands(model, price, on, where):
            return None
        row = ModelPrice.objects.create(model=model, **price, valid_from=on, source=where, set_by=user)  # type: ignore[misc]
        after = {"model": model, "valid_from": on.isoformat(), **{name: str(usd) for name, usd in price.items()}}
        action_on(verb=SET, on=("price", row.pk), user=user, key=key, after=after)
    return row


def _stands(model: str, price: Mapping[str, Decimal], on: date, source: str) -> bool:
    """Whether the price that holds on the day `on` is this one, from the same source."""
    rows = ModelPrice.objects.filter(model=model, withdrawn_at=None, valid_from__lte=on)
    last = rows.order_by("-valid_from", "-pk").first()
    wanted = {**price, "source": source}
    return last is not None and all(getattr(last, name) == value for name, value in wanted.items())


def _check_files(model: str, on: date) -> None:
    try:
        here = provider_of(endpoint_from_settings())
        known = file_prices().find(provider=here, model=model, on=on)
    except BadPrices as error:
        raise ActionRefused(str(error)) from error
    if known is not None:
        raise ActionRefused(
            _("%(model)s already has a price in a file: change it there (LLM_PRICES).") % {"model": model}
        )


def price_withdraw(
    *, price: ModelPrice, withdrawn: bool, user: AbstractBaseUser | None, key: str | None = None
) -> None:
    """Calls take it no longer, or take it again. Calls that were made keep what they cost."""
    verb = WITHDRAW if withdrawn else BACK
    with transaction.atomic():
        row = ModelPrice.objects.select_for_update(of=("self",)).get(pk=price.pk)
        if action_done(key=key, verb=verb) is not None or (row.withdrawn_at is not None) == withdrawn:
            return
        row.withdrawn_at = timezone.now() if withdrawn else None
        row.save(update_fields=["withdrawn_at"])
        was, now = {"withdrawn": not withdrawn}, {"withdrawn": withdrawn, "model": row.model}
        action_on(verb=verb, on=("price", row.pk), user=user, key=key, before=was, after=now)
