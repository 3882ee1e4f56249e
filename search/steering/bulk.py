"""One act on every node that matches a filter: one batch in the log, one row of the audit, undone as one."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from adaexplore_site.core.audit import ActionRefused
from search.algorithm.spans import spans
from search.algorithm.steering import BOOST, FORCE, PIN, PRUNE, RESTORE
from search.records.follow_ups import Hop
from search.records.models import Run
from search.runs.services import pair_check
from search.steering.desk import Desk, Done, steer
from search.steering.node_filter import NodeFilter
from search.steering.nodes import MAX_BOOST, MAX_QUOTA, MAX_RELEASES

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

VERB = "steer.bulk"
ACTS = (PRUNE, PIN, BOOST, RESTORE)
MAX_PINS = 50  # each has its own selections and its own event
SPAN_CHARS = 700  # of the numbers in one event, which holds 2 kB


@dataclass(frozen=True)
class Batch:
    """What an act would reach: the nodes it is for, and why others of the filter are left out, counted. `closes` counts
    the nodes that a prune would close, those below included. With `why_not` it cannot be done."""

    act: str
    ready: tuple[int, ...]
    left: tuple[tuple[str, int], ...] = ()
    closes: int = 0
    releases: tuple[int, ...] = ()
    why_not: str = ""

    @property
    def seen(self) -> str:
        """Sixteen hexadecimal digits of which nodes are ready: what a preview has shown."""
        return hashlib.sha256(",".join(map(str, self.ready)).encode()).hexdigest()[:16]


def batch_of(desk: Desk, act: str, chosen: NodeFilter) -> Batch:
    """The nodes of a filter that the act fits, as of now. Raises ActionRefused for an unknown act."""
    if act not in ACTS:
        raise ActionRefused(f"There is no act {act!r} on many nodes. Choose one of {', '.join(ACTS)}.")
    ready, left = [], Counter[str]()
    for row in chosen.matching(desk.rows):
        why = _unfit(desk, act, row.number)
        if why:
            left[why] += 1
        else:
            ready.append(row.number)
    closing = _closing(desk, ready) if act == PRUNE else set()
    over = tuple(one.seq for one in desk.steering.acts if one.verb in (PIN, FORCE) and one.node in closing)
    why_not = ""
    if act == PIN and len(ready) > MAX_PINS:
        why_not = f"Each pin asks for selections of its own: {MAX_PINS} fit, not {len(ready)}. Narrow the filter."
    elif len(over) > MAX_RELEASES:
        why_not = f"{len(over)} pins and forced steps lie below these nodes. Undo some of them first."
    elif act != RESTORE and not chosen.narrows:
        why_not = "Choose which nodes: without a filter it would be all of them."
    return Batch(act, tuple(ready), tuple(left.items()), len(closing), over, why_not)


def _unfit(desk: Desk, act: str, number: int) -> str:
    branch = desk.tree.branches.get(number)
    if branch is None:
        return "withdrawn"
    if act == RESTORE:
        return "" if number in desk.steering.pruned else "not pruned"
    if not branch.closed:
        return ""
    return "pruned already" if number in desk.steering.pruned else "below a pruned node"


def _closing(desk: Desk, numbers: Iterable[int]) -> set[int]:
    """What is open now at or below these nodes. Each node is walked once."""
    found: set[int] = set()
    stack = [desk.tree[number] for number in numbers]
    while stack:
        branch = stack.pop()
        if branch.number not in found and not branch.closed:
            found.add(branch.number)
            stack += branch.children
    return found


def steer_bulk(
    *,
    run: Run,
    act: str,
    chosen: NodeFilter,
    expected: int,
    seen: str | None = None,
    quota: int = 0,
    boost: float = 0.0,
    user: AbstractBaseUser | None,
    key: str | None = None,
) -> list[Hop]:
    """Do `act` to every node of the filter that it fits; `expected` is how many the person was told, `seen` which.

    A pin asks for `quota` selections at each node, `boost` is added to each score. Raises ActionRefused: other nodes
    than expected, none, too many pins, a value out of range.
    """

    def many(desk: Desk) -> Done | None:
        pair_check(run=desk.run, verb=f"steer.{act}")
        values = _values(act, quota, boost)
        batch = batch_of(desk, act, chosen)
        if batch.why_not:
            raise ActionRefused(batch.why_not)
        if len(batch.ready) != expected:
            raise ActionRefused(f"{_nodes(len(batch.ready))} now, not {expected}. Look at them again, then decide.")
        if seen and seen != batch.seen:
            raise ActionRefused("Other nodes match now than those that were shown. Look at them again, then decide.")
        if not batch.ready:
            raise ActionRefused("No node of this filter can be treated so. Nothing was changed.")
        if act == BOOST and all(desk.steering.boosts.get(number, 0.0) == boost for number in batch.ready):
            return None
        said = {"verb": act, "count": len(batch.ready), "words": chosen.words, **values}
        return _done(batch, said, values)

    return steer(run=run, verb=VERB, user=user, key=key, act=many)


def _done(batch: Batch, said: dict[str, Any], values: dict[str, Any]) -> Done:
    """The first event says what the act is, those after it hold what it has no room for. A pin is an event of its own,
    so that its selections are counted and it can be undone by itself."""
    if batch.act == PIN:
        pins = [("steer.pin", {"number": number, **values}) for number in batch.ready]
        return Done(said, parts=tuple(pins), said=said)
    first, *rest = spans(batch.ready, SPAN_CHARS)
    parts = [{"verb": batch.act, "numbers": numbers, **values} for numbers in rest]
    if batch.releases:
        parts.append({"verb": batch.act, "numbers": "", "releases": list(batch.releases)})
    return Done({**said, "numbers": first}, parts=tuple((VERB, part) for part in parts), said=said)


def _values(act: str, quota: int, boost: float) -> dict[str, Any]:
    if act == PIN:
        if not 1 <= quota <= MAX_QUOTA:
            raise ActionRefused(f"A pin asks for 1 to {MAX_QUOTA} selections, not {quota}.")
        return {"quota": quota}
    if act == BOOST:
        if not math.isfinite(boost) or abs(boost) > MAX_BOOST:
            raise ActionRefused(f"A boost is a number from -{MAX_BOOST:g} to {MAX_BOOST:g}; rewards lie from 0 to 1.6.")
        return {"boost": float(boost)}
    return {}


def _nodes(count: int) -> str:
    return f"{count} node matches" if count == 1 else f"{count} nodes match"
