"""The price list of the package genai-prices: read offline, by the endpoint's address and the model's name."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from importlib.metadata import version
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from search.ledger.prices import Price, rounded_up

if TYPE_CHECKING:
    from genai_prices.types import ModelPrice

PACKAGE = "genai-prices"
RELEASED = date(2026, 11, 10)  # of the version that pyproject.toml pins; the package does not tell it


@dataclass(frozen=True)
class ListedPrice(Price):
    """A price of the list. What it says per million tokens is for short prompts; long ones may cost more."""

    listed: ModelPrice | None = field(default=None, repr=False, compare=False)

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
