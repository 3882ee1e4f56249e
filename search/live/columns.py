"""Nodes as columns: the compact form that the tree, the chart and the table view are drawn from."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from django.utils.translation import gettext_lazy as _

from judge.evaluations.models import Evaluation
from judge.values import Basis, Subject
from search.algorithm.steering import Steering
from search.proposers import BY_HAND
from search.rechecks.models import Recheck
from search.records.events import (
    ManySteered,
    NodeCancelled,
    NodeCompleted,
    NodePinned,
    NodeReserved,
    Steered,
    SteeringUndone,
    event_read,
)
from search.records.facts import NodeRow, node_rows, winners_in
from search.records.log import steering_of
from search.records.models import Node, Run, RunEvent
from search.records.node_styles import STYLES

PRUNED, PINNED, TOUCHED, BOOSTED = 1, 2, 4, 8  # the browser knows these numbers: static/js/store.js
QUARANTINED, FLAKY, ASKED = 16, 32, 64
DOUBTS = {Evaluation.Doubt.QUARANTINED.value: QUARANTINED, Evaluation.Doubt.FLAKY.value: FLAKY}
LABELS = {
    PRUNED: _("pruned"),
    PINNED: _("pinned"),
    BOOSTED: _("boosted"),
    QUARANTINED: _("quarantined"),
    FLAKY: _("flaky"),
    ASKED: _("being judged again"),
    TOUCHED: _("manual influence"),
}


def flags_of(steering: Steering) -> dict[int, int]:
    """Flags by node number: pruned here (not above), pinned with selections left, boosted."""
    flags: Counter[int] = Counter()
    for number in steering.pruned:
        flags[number] |= PRUNED
    for pin in steering.pins:
        flags[pin.node] |= PINNED
    for number in steering.boosts:
        flags[number] |= BOOSTED
    return dict(flags)


def flag_labels(flags: int) -> tuple[str, ...]:
    """What they are called."""
    return tuple(str(label) for flag, label in LABELS.items() if flags & flag)


def changed_by(events: Collection[RunEvent], steering: Steering) -> set[int]:
    """Nodes whose flags these events may have changed, beside those that they name."""
    steered = any(isinstance(row.said, Steered | NodeReserved | NodeCancelled) for row in events)
    if not steered:
        return set()
    return {number for action in steering.actions for number in action.about} | _given_back(events)


def _given_back(events: Iterable[RunEvent]) -> set[int]:
    """Nodes of undone actions on many: the undo names the action only. One query where there is one."""
    undone = {
        row.said.act: row.run_id
        for row in events
        if isinstance(row.said, SteeringUndone) and row.said.verb == ManySteered.name
    }
    if not undone:
        return set()
    run_id = next(iter(undone.values()))
    rows = RunEvent.objects.filter(run=run_id).of(ManySteered, NodePinned).steered_by(undone)
    actions = [action for row in rows if isinstance(row.said, Steered) for action in row.said.actions(row.seq)]
    return {number for action in actions for number in action.about}


KINDS: dict[str, int] = {Node.Kind.ROOT: 0, Node.Kind.LARGE: 1, Node.Kind.SMALL: 2}
COLUMNS = (
    *("n", "p", "k", "s", "v", "r", "x", "lo", "hi", "ns", "bs", "o"),
    *("b", "t", "c", "u", "d", "m", "a", "f", "w", "h"),
)


def node_columns(run: Run, numbers: Iterable[int] | None = None) -> dict[str, list[Any]]:
    """The named nodes (all when None) by number, one list per column.

    n number, p parent number (-1 for the root), k kind (0 root, 1 large, 2 small), s index into STYLES, v verdict word,
    r reason code, x/lo/hi speedup over eager with its interval, ns samples, bs basis, o completion order, b/t seconds
    from the start of the run to reservation/completion, c numbers of the context nodes, u 1 when the verdict of an
    equal candidate was reused, d what the proposer says it changed, m the flags of manual changes, a 1 when it may be
    the best (audited here, or reported), 2 when it beat PyTorch, too, f speedup over the fastest baseline as [value,
    low, high, n] and w which it is (a Subject) where that is not eager, h the same over eager as PyTorch
    ships where that is neither of them. Unknown is null.
    """
    rows = node_rows(run.pk, numbers)
    started, by_hand = run.created_at.timestamp(), run.proposer in BY_HAND
    columns: dict[str, list[Any]] = {key: [] for key in COLUMNS}
    flags, won = flags_of(steering_of(run.pk)), winners_in(run.pk, numbers)
    asked = set(Recheck.objects.filter(node__run=run, state__in=Recheck.OPEN).values_list("node__number", flat=True))
    for row in rows:
        marks = flags.get(row.number, 0) | DOUBTS.get(row.doubt or "", 0)
        other = row.fastest not in (None, "", Subject.EAGER)
        marks |= (TOUCHED if row.touched else 0) | (ASKED if row.number in asked else 0)
        values = (
            row.number,
            -1 if row.parent is None else row.parent,
            KINDS[row.kind],
            STYLES.index(row.style(by_hand=by_hand)),
            row.verdict,
            row.reason,
            _short(row.speedup),
            _short(row.low),
            _short(row.high),
            row.n,
            row.basis or "",
            row.told_order,
            round(row.created_at.timestamp() - started, 1),
            round(row.told_at.timestamp() - started, 1) if row.told_at else None,
            row.context,
            int(row.reused),
            row.summary if len(row.summary) <= 80 else f"{row.summary[:79]}…",
            marks,
            int(row.may_be_best) + (row.number in won),
            _beside(row.over_fastest, row.fastest_interval) if other else None,
            row.fastest if other else "",
            None if _known(row) else _beside(row.over_shipped, row.shipped_interval),
        )
        for column, value in zip(columns.values(), values, strict=True):
            column.append(value)
    return columns


def replay_columns(run: Run) -> dict[str, Any]:
    """For each node the event numbers of its birth and its end, so that any moment can be shown again.

    `head` is the last moment. Runs imported without node events are replayed by completion order instead:
    `unit` says which, "event" or "step".
    """
    events = RunEvent.objects.filter(run=run).of(NodeReserved, NodeCompleted, NodeCancelled).order_by("seq")
    born: dict[int, int] = {}
    ended: dict[int, int] = {}
    for seq, kind, payload in events.values_list("seq", "kind", "payload"):
        event = event_read(kind, payload)
        assert event.node is not None
        (born if isinstance(event, NodeReserved) else ended)[event.node] = seq
    if ended:
        numbers = sorted({0} | born.keys() | ended.keys())
        first = {number: born.get(number, ended.get(number, 0)) for number in numbers}
        return {
            "unit": "event",
            "head": run.event_seq,
            "n": numbers,
            "born": [first[number] for number in numbers],
            "ended": [0 if number == 0 else ended.get(number) for number in numbers],
        }
    order: dict[int, int] = {0: 0}
    for number, completed in run.nodes.order_by("number").values_list("number", "told_order"):
        if completed is not None:
            order[number] = completed
    numbers = sorted(order)
    steps = [order[number] for number in numbers]
    return {"unit": "step", "head": max(steps), "n": numbers, "born": steps, "ended": steps}


def _known(row: NodeRow) -> bool:
    """Whether eager as PyTorch ships is another column: the problem's own eager, or the fastest baseline."""
    return row.fastest == Subject.SHIPPED or row.over_shipped == row.speedup


def _beside(value: float | None, interval: list[Any] | None) -> list[Any] | None:
    low, high, n = interval or (None, None, None)
    return None if value is None else [_short(value), _short(low), _short(high), n]


def _short(value: float | None) -> float | None:
    """Seven significant digits: pages round to three, and rounding twice must not differ; half the bytes of all."""
    return None if value is None else float(f"{value:.7g}")


MEASURED = Basis.MEASURED.value
GROWING = ("n", "o")  # whole numbers, completion order with gaps of null


def packed(columns: dict[str, list[Any]]) -> dict[str, Any]:
    """The same columns in short; `packed` says so. b and t in tenths of a second."""
    births = [round(10 * born) for born in columns["b"]]
    short: dict[str, Any] = {**columns, "packed": 1}
    short |= {name: _steps(columns[name]) for name in GROWING}
    short["p"] = [number - parent for number, parent in zip(columns["n"], columns["p"], strict=True)]
    short["t"] = [None if t is None else round(10 * t) - b for t, b in zip(columns["t"], births, strict=True)]
    short["b"] = _steps(births)
    for name in ("lo", "hi"):
        ends = zip(columns[name], columns["x"], columns["bs"], strict=True)
        short[name] = [None if end is None or x is None else _end(end, x, basis) for end, x, basis in ends]
    return short


def _steps(values: list[int | None]) -> list[int | None]:
    """Each value less the one before it; unknown ones are passed over."""
    last, steps = 0, []
    for value in values:
        steps.append(None if value is None else value - last)
        last = last if value is None else value
    return steps


def _end(end: float, speedup: float, basis: str) -> float:
    """An end of an interval. Measured: hundredths from the speedup's, as pages print two decimals. Else a factor."""
    if basis == MEASURED:
        return round(100 * float(f"{end:.2f}")) - math.floor(100 * speedup + 0.5)
    return float(f"{end / speedup:.6g}")
