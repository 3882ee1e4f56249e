"""Which nodes of a search are meant: by state, kind, speedup, place in the tree and words. For acts on all of them.

A value that cannot be read is refused, never left out: the act would reach more nodes than were asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode

from adaexplore_site.core.audit import FieldsRefused
from adaexplore_site.core.storable import storable_text
from judge.evaluations.measures import verdict_look
from search.records.facts import NodeRow
from search.records.models import Node

STATES = {  # looks of told nodes, in the words of the tree's legend
    "wrong": "failed",
    "compile-error": "does not compile",
    "slower": "correct, slower",
    "correct": "correct",
    "suspect": "not settled",
    "cancelled": "withdrawn",
}
KINDS = (Node.Kind.LARGE.value, Node.Kind.SMALL.value)
Q_CHARS = 80


@dataclass(frozen=True)
class NodeFilter:
    """All that is set must hold; the start and nodes without a verdict never match. `under` is a speedup over eager,
    `below` a node whose descendants are meant. `q` is a node's number, else words of its reason or of what it changed.
    Of a page that was looked at, `told` is how many nodes had been told: later ones do not match."""

    states: tuple[str, ...] = ()
    kind: str = ""
    under: float | None = None
    below: int | None = None
    q: str = ""
    told: int | None = None

    @classmethod
    def of(cls, given: Mapping[str, str], states: Sequence[str]) -> NodeFilter:
        """Out of a form or a query string. Raises FieldsRefused with what cannot be read."""
        wrong: dict[str, str] = {}
        for name in sorted(set(states) - STATES.keys()):
            wrong["state"] = f"There is no state {name[:40]!r}. Known: {', '.join(STATES)}."
        kind = given.get("kind", "")
        if kind and kind not in KINDS:
            wrong["kind"] = f"A step is {' or '.join(KINDS)}, not {kind[:40]!r}."
        found = cls(
            states=tuple(name for name in STATES if name in states),
            kind=kind,
            under=_speedup(given.get("under", "").strip(), wrong),
            below=_whole(given, "below", wrong),
            q=" ".join(storable_text(given.get("q", "")).split())[:Q_CHARS],
            told=_whole(given, "told", wrong),
        )
        if wrong:
            raise FieldsRefused(wrong)
        return found

    @property
    def narrows(self) -> bool:
        return bool(self.states or self.kind or self.q or self.under is not None or self.below is not None)

    @property
    def fields(self) -> list[tuple[str, str]]:
        """As a form sends it, without the moment."""
        rows = [("state", name) for name in self.states]
        rows += [(name, value) for name, value in (("kind", self.kind), ("q", self.q)) if value]
        rows += [("under", f"{self.under:g}")] if self.under is not None else []
        return rows + ([("below", str(self.below))] if self.below is not None else [])

    def toggled(self, state: str) -> str:
        """The query string with one state more, or less."""
        states = [name for name in STATES if (name in self.states) != (name == state)]
        return urlencode(replace(self, states=tuple(states)).fields)

    @property
    def words(self) -> str:
        """For people, as it stands in the audit."""
        parts = [" or ".join(STATES[name] for name in self.states)] if self.states else []
        parts += [f"{self.kind} steps"] if self.kind else []
        parts += [f"speedup under {self.under:g}×"] if self.under is not None else []
        parts += [f"below node {self.below}"] if self.below is not None else []
        parts += [f"“{self.q}”"] if self.q else []
        return ", ".join(parts) or "every node"

    def matching(self, rows: Iterable[NodeRow]) -> list[NodeRow]:
        """The rows that match, of all rows of a run in number order."""
        rows = list(rows)
        inside = _below(rows, self.below) if self.below is not None else None
        return [row for row in rows if self._matches(row) and (inside is None or row.number in inside)]

    def counts(self, rows: Iterable[NodeRow]) -> list[tuple[str, str, int]]:
        """(state, words, nodes of that state) under everything else that the filter asks for."""
        found = Counter(look_of_row(row) for row in replace(self, states=()).matching(rows))
        return [(name, words, found[name]) for name, words in STATES.items()]

    def _matches(self, row: NodeRow) -> bool:
        if row.number == 0 or row.told_order is None or (self.told is not None and row.told_order > self.told):
            return False
        if self.states and look_of_row(row) not in self.states:
            return False
        if self.kind and row.kind != self.kind:
            return False
        if self.under is not None and (row.speedup is None or row.speedup >= self.under):
            return False
        if self.q.isascii() and self.q.isdigit():
            return row.number == int(self.q)
        said = f"{row.evaluation_reason or row.reason} {row.summary}".casefold()
        return self.q.casefold() in said


def look_of_row(row: NodeRow) -> str:
    """How a told node looks in the tree."""
    return "suspect" if row.doubt else verdict_look(row.verdict, row.speedup)


def _below(rows: Iterable[NodeRow], top: int) -> set[int]:
    """Numbers of the descendants of node `top`: parents come before their children."""
    ids: set[int] = set()
    found: set[int] = set()
    for row in rows:
        if row.number == top:
            ids.add(row.id)
        elif row.parent in ids:
            ids.add(row.id)
            found.add(row.number)
    return found


def _speedup(text: str, wrong: dict[str, str]) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not 0 < value < 1e6:
        wrong["under"] = f"Enter a speedup such as 1.5, not {text[:40]!r}."
        return None
    return value


def _whole(given: Mapping[str, str], name: str, wrong: dict[str, str]) -> int | None:
    text = given.get(name, "").strip().removeprefix("#")
    if text and not (text.isascii() and text.isdigit() and len(text) < 9):
        wrong[name] = f"Enter a whole number for {name}, not {text[:40]!r}."
        return None
    return int(text) if text else None
