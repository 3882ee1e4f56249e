"""The orders in which a campaign's problems can be listed. What is equal stays in the order of start."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.urls import reverse

from search.batches.campaign_rows import STATES, EntryRow
from search.batches.models import Campaign

START = "start"


@dataclass(frozen=True)
class Order:
    """`key` gives None for what is unknown: that comes last, whichever way round. `down`: the greatest first."""

    label: str
    key: Callable[[EntryRow], Any]
    down: bool = False


ORDERS = {
    START: Order("start", lambda row: row.entry.place),
    "problem": Order("problem", lambda row: (row.entry.problem.title.casefold(), row.entry.problem.slug)),
    "state": Order("state", lambda row: STATES.index(row.state)),
    "steps": Order("steps", lambda row: row.summary.told if row.summary else None, down=True),
    "speedup": Order("speedup", lambda row: row.best.speedup if row.best else None, down=True),
}


@dataclass(frozen=True)
class SortLink:
    """A link to one order; that of the order in force leads the other way round."""

    name: str
    label: str
    url: str
    direction: str  # ascending or descending; empty where it is not in force


@dataclass(frozen=True)
class Sorting:
    """An order as asked for: a name of ORDERS, turned round by a `-` before it; anything else is the order of start."""

    wanted: str = START

    @property
    def name(self) -> str:
        bare = self.wanted.removeprefix("-")
        return bare if bare in ORDERS else START

    @property
    def turned(self) -> bool:
        return self.wanted == f"-{self.name}"

    @property
    def down(self) -> bool:
        return ORDERS[self.name].down != self.turned

    @property
    def query(self) -> str:
        """For the address; empty for the order of start."""
        asked = f"-{self.name}" if self.turned else self.name
        return "" if asked == START else asked

    def rows(self, rows: Sequence[EntryRow]) -> list[EntryRow]:
        """The rows in this order, those of which it is not known last."""
        key = ORDERS[self.name].key
        in_order = sorted(rows, key=lambda row: row.entry.place)
        known = [row for row in in_order if key(row) is not None]
        return sorted(known, key=key, reverse=self.down) + [row for row in in_order if key(row) is None]

    def links(self, campaign: Campaign) -> list[SortLink]:
        """One link for every order."""
        own = reverse("campaign-detail", args=[campaign.pk])
        found = []
        for name, order in ORDERS.items():
            here = name == self.name
            other = Sorting(f"-{name}" if here and not self.turned else name).query
            direction = ("descending" if self.down else "ascending") if here else ""
            found.append(SortLink(name, order.label, f"{own}?sort={other}" if other else own, direction))
        return found
