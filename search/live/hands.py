"""What people did to the nodes of a tree, as flags: the column `m` of the nodes that the page draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from judge.models import Evaluation
from search.algorithm.steering import Steering
from search.models import RunEvent

PRUNED, PINNED, TOUCHED, BOOSTED = 1, 2, 4, 8  # the browser knows these numbers: static/js/store.js
QUARANTINED, FLAKY, ASKED = 16, 32, 64
DOUBTS = {Evaluation.Doubt.QUARANTINED.value: QUARANTINED, Evaluation.Doubt.FLAKY.value: FLAKY}
WORDS = {
    PRUNED: "pruned",
    PINNED: "pinned",
    BOOSTED: "boosted",
    QUARANTINED: "quarantined",
    FLAKY: "flaky",
    ASKED: "is judged once more",
    TOUCHED: "by a person's hand",
}
CHANGING = frozenset({"node.reserved", "node.cancelled"})  # they use a pin up, or give it back


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


def changed_by(events: Iterable[RunEvent], steering: Steering) -> set[int]:
    """Nodes whose flags these events may have changed, beside those that they name."""
    steered = any(event.kind.startswith("steer.") or event.kind in CHANGING for event in events)
    return {act.node for act in steering.acts if act.node is not None} if steered else set()
