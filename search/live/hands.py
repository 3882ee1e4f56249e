"""What people did to the nodes of a tree, as flags: the column `m` of the nodes that the page draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from judge.evaluations.models import Evaluation
from search.algorithm.steering import Steering
from search.records.events import ManySteered, NodeCancelled, NodePinned, NodeReserved, Steered, SteeringUndone
from search.records.models import RunEvent

PRUNED, PINNED, TOUCHED, BOOSTED = 1, 2, 4, 8  # the browser knows these numbers: static/js/store.js
QUARANTINED, FLAKY, ASKED = 16, 32, 64
DOUBTS = {Evaluation.Doubt.QUARANTINED.value: QUARANTINED, Evaluation.Doubt.FLAKY.value: FLAKY}
WORDS = {
    PRUNED: "pruned",
    PINNED: "pinned",
    BOOSTED: "boosted",
    QUARANTINED: "quarantined",
    FLAKY: "flaky",
    ASKED: "being judged again",
    TOUCHED: "manual influence",
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


def flag_words(flags: int) -> list[str]:
    """The flags in words."""
    return [word for flag, word in WORDS.items() if flags & flag]


def changed_by(events: Collection[RunEvent], steering: Steering) -> set[int]:
    """Nodes whose flags these events may have changed, beside those that they name."""
    steered = any(isinstance(row.said, Steered | NodeReserved | NodeCancelled) for row in events)
    if not steered:
        return set()
    return {number for act in steering.acts for number in act.about} | _given_back(events)


def _given_back(events: Iterable[RunEvent]) -> set[int]:
    """Nodes of undone acts on many: the undo names the act only. One query where there is one."""
    undone = {
        row.said.act: row.run_id
        for row in events
        if isinstance(row.said, SteeringUndone) and row.said.verb == ManySteered.name
    }
    if not undone:
        return set()
    run_id = next(iter(undone.values()))
    rows = RunEvent.objects.filter(run=run_id).of(ManySteered, NodePinned).steered_by(undone)
    acts = [act for row in rows if isinstance(row.said, Steered) for act in row.said.acts(row.seq)]
    return {number for act in acts for number in act.about}
