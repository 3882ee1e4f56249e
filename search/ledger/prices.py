"""What a call costs, by a table of dated prices. A model that no row names has no price: unknown, never zero."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any, Self

MILLION = Decimal(1_000_000)
_MICRO = Decimal("0.000001")  # what a Proposal row keeps
_REQUIRED = ("model", "usd_per_m_in", "usd_per_m_out", "valid_from")


class BadPrices(ValueError):
    """A price file cannot be read; the message names the file, the row and what is wrong."""


@dataclass(frozen=True)
class Price:
    """Dollars per million tokens from a day on; None: since always. `provider` is the endpoint's host; empty: any.
    `noted` is the day on which somebody read the price, `source` where."""

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

    def __add__(self, other: PriceTable) -> PriceTable:
        return PriceTable(self.rows + other.rows)


def read_prices(paths: Iterable[Path]) -> PriceTable:
    """The tables of these files, later files last. Raises BadPrices."""
    table = PriceTable()
    for path in paths:
        table += _read(path)
    return table


def _read(path: Path) -> PriceTable:
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
