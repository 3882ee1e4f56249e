"""One action on every node that matches a filter: one batch in the log, one row of the audit, undone as one.

A value of the filter that cannot be read is refused, never left out: the action would reach more nodes than were meant.
"""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from django.utils.translation import gettext as _

from adaexplore_site.core.audit import ActionRefused, FieldsRefused
from adaexplore_site.core.text import storable_text
from search.algorithm.steering import BOOST, FORCE, PIN, PRUNE, RESTORE, spans
from search.algorithm.tree import LARGE
from search.records.facts import NodeRow
from search.records.models import Node
from search.records.node_styles import LABELS
from search.steering.snapshot import Change, Snapshot

VERB = "steer.bulk"
ACTS = (PRUNE, PIN, BOOST, RESTORE)
MAX_PINS = 50  # each has its own selections and its own event
MAX_RELEASES = 200  # pins and forced steps that one prune ends; all of them stand in its event
SPAN_CHARS = 700  # of the numbers in one event, which holds 2 kB
STATES = {name: LABELS[name] for name in ("wrong", "compile-error", "slower", "correct", "suspect", "cancelled")}
KINDS = (Node.Kind.LARGE.value, Node.Kind.SMALL.value)
Q_CHARS = 80


@dataclass(frozen=True)
class NodeFilter:
    """All that is set must hold; the start and nodes without a verdict never match. `under` is a speedup over eager,
    `below` a node whose descendants are meant. `q` is a node's number, else words of its reason or of what it changed.
    Of a page that was looked at, `told` is how many nodes were completed: later ones do not match."""

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
            wrong["state"] = _("There is no state %(name)r. Known: %(names)s.") % {
                "name": name[:40],
                "names": ", ".join(STATES),
            }
        kind = given.get("kind", "")
        if kind and kind not in KINDS:
            wrong["kind"] = _("A step is %(names)s, not %(kind)r.") % {"names": " or ".join(KINDS), "kind": kind[:40]}
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
    def text(self) -> str:
        """For people, as it stands in the audit."""
        parts = [_(" or ").join(str(STATES[name]) for name in self.states)] if self.states else []
        parts += [_("large steps") if self.kind == LARGE else _("small steps")] if self.kind else []
        parts += [_("speedup under %(under)g×") % {"under": self.under}] if self.under is not None else []
        parts += [_("below node %(below)s") % {"below": self.below}] if self.below is not None else []
        parts += [f"“{self.q}”"] if self.q else []
        return ", ".join(parts) or _("every node")

    def matching(self, rows: Iterable[NodeRow]) -> list[NodeRow]:
        """The rows that match, of all rows of a run in number order."""
        rows = list(rows)
        inside = _below(rows, self.below) if self.below is not None else None
        return [row for row in rows if self._matches(row) and (inside is None or row.number in inside)]

    def counts(self, rows: Iterable[NodeRow]) -> list[tuple[str, str, int]]:
        """(state, label, nodes of that state) under everything else that the filter asks for."""
        found = Counter(row.style() for row in replace(self, states=()).matching(rows))
        return [(name, str(label), found[name]) for name, label in STATES.items()]

    def _matches(self, row: NodeRow) -> bool:
        if row.number == 0 or row.told_order is None or (self.told is not None and row.told_order > self.told):
            return False
        if self.states and row.style() not in self.states:
            return False
        if self.kind and row.kind != self.kind:
            return False
        if self.under is not None and (row.speedup is None or row.speedup >= self.under):
            return False
        if self.q.isascii() and self.q.isdigit():
            return row.number == int(self.q)
        said = f"{row.reason} {row.summary}".casefold()
        return self.q.casefold() in said


def _below(rows: Iterable[NodeRow], top: int) -> set[int]:
    """Numbers of the descendants of node `top`: parents come before their children."""
    found: set[int] = set()
    for row in rows:
        if row.parent == top or row.parent in found:
            found.add(row.number)
    return found


def _speedup(text: str, wrong: dict[str, str]) -> float | None:
    try:
        value = float(text) if text else None
    except ValueError:
        value = math.nan
    if value is not None and not 0 < value < 1e6:
        wrong["under"] = _("Enter a speedup such as 1.5, not %(text)r.") % {"text": text[:40]}
        return None
    return value


def _whole(given: Mapping[str, str], name: str, wrong: dict[str, str]) -> int | None:
    text = given.get(name, "").strip().removeprefix("#")
    if text and not (text.isascii() and text.isdigit() and len(text) < 9):
        wrong[name] = _("Enter a whole number for %(name)s, not %(text)r.") % {"name": name, "text": text[:40]}
        return None
    return int(text) if text else None


@dataclass(frozen=True)
class Batch:
    """What an action would reach: its nodes, and why others of the filter are left out, counted. `closes` counts the
    nodes that a prune would close, those below included. With `why_not` it cannot be done."""

    act: str
    ready: tuple[int, ...]
    left: tuple[tuple[str, int], ...] = ()
    closes: int = 0
    releases: tuple[int, ...] = ()
    why_not: str = ""

    @property
    def label(self) -> str:
        """On its button."""
        return {PRUNE: _("Prune"), PIN: _("Pin"), BOOST: _("Boost"), RESTORE: _("Restore")}[self.act]

    @property
    def seen(self) -> str:
        """Sixteen hexadecimal digits of which nodes are ready: what a preview has shown."""
        return hashlib.sha256(",".join(map(str, self.ready)).encode()).hexdigest()[:16]

    def change(self, said: dict[str, Any], values: dict[str, Any]) -> Change:
        """The first event says what the action is, those after it hold what it has no room for. A pin is an event of
        its own, so that its selections are counted and it can be undone by itself."""
        if self.act == PIN:
            pins = [("steer.pin", {"number": number, **values}) for number in self.ready]
            return Change(said, parts=tuple(pins), said=said)
        first, *rest = spans(self.ready, SPAN_CHARS)
        parts = [{"verb": self.act, "numbers": numbers, **values} for numbers in rest]
        if self.releases:
            parts.append({"verb": self.act, "numbers": "", "releases": list(self.releases)})
        return Change({**said, "numbers": first}, parts=tuple((VERB, part) for part in parts), said=said)


def batch_of(now: Snapshot, act: str, chosen: NodeFilter) -> Batch:
    """The nodes of a filter that the action fits, as of now. Raises ActionRefused for an unknown action."""
    if act not in ACTS:
        raise ActionRefused(
            _("There is no action %(act)r on many nodes. Choose one of %(names)s.")
            % {"act": act, "names": ", ".join(ACTS)}
        )
    ready, left = [], Counter[str]()
    for row in chosen.matching(now.rows):
        why = _unfit(now, act, row.number)
        if why:
            left[why] += 1
        else:
            ready.append(row.number)
    closing = _closing(now, ready) if act == PRUNE else set()
    over = tuple(one.seq for one in now.steering.actions if one.verb in (PIN, FORCE) and one.node in closing)
    why_not = ""
    if act == PIN and len(ready) > MAX_PINS:
        text = _("One action pins at most %(most)s nodes, not %(count)s. Narrow the filter.")
        why_not = text % {"most": MAX_PINS, "count": len(ready)}
    elif len(over) > MAX_RELEASES:
        text = _("%(count)s pins and forced steps lie below these nodes. Undo some of them first.")
        why_not = text % {"count": len(over)}
    elif act != RESTORE and not chosen.narrows:
        why_not = _("Select nodes with the filter first: without one, the action would apply to all nodes.")
    return Batch(act, tuple(ready), tuple(left.items()), len(closing), over, why_not)


def _unfit(now: Snapshot, act: str, number: int) -> str:
    branch = now.tree.branches.get(number)
    if branch is None:
        return _("withdrawn")
    if act == RESTORE:
        return "" if number in now.steering.pruned else _("not pruned")
    if not branch.closed:
        return ""
    return _("pruned already") if number in now.steering.pruned else _("below a pruned node")


def _closing(now: Snapshot, numbers: Iterable[int]) -> set[int]:
    """What is open now at or below these nodes. Each node is walked once."""
    found: set[int] = set()
    stack = [now.tree[number] for number in numbers]
    while stack:
        branch = stack.pop()
        if branch.number not in found and not branch.closed:
            found.add(branch.number)
            stack += branch.children
    return found
