"""Set a price for a model, and withdraw it. It counts for calls from then on only."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING

from django.db import transaction
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.llm import endpoint_from_settings
from adaexplore_site.core.text import storable_text
from search.ledger.models import ModelPrice
from search.ledger.prices import BadPrices
from search.ledger.pricing import file_prices, provider_of
from search.records.texts import clip

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

SET, WITHDRAW, BACK = "price.set", "price.withdraw", "price.restore"
MOST_USD = Decimal(100_000)  # for a million tokens
EXACT = Decimal("0.000001")


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
        raise ActionRefused("Enter the model name as its calls use it.")
    for words, usd in (("in", usd_per_m_in), ("out", usd_per_m_out)):
        if not (usd.is_finite() and 0 <= usd <= MOST_USD):
            raise ActionRefused(f"The price {words} must be from $0 to ${MOST_USD:,} for a million tokens.")
    _check_files(model, on)
    with transaction.atomic():
        if action_done(key=key, verb=SET) is not None:
            return None
        price = {"usd_per_m_in": usd_per_m_in.quantize(EXACT), "usd_per_m_out": usd_per_m_out.quantize(EXACT)}
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
        raise ActionRefused(f"{model} already has a price in a file: change it there (LLM_PRICES).")


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
