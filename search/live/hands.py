"""What people did to the nodes of a tree, as flags: the column `m` of the nodes that the page draws."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from django.db.models import Q

from judge.evaluations.models import Evaluation
from search.algorithm.steering import Act, Steering
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


def changed_by(events: Collection[RunEvent], steering: Steering) -> set[int]:
    """Nodes whose flags these events may have changed, beside those that they name."""
    steered = any(event.kind.startswith("steer.") or event.kind in CHANGING for event in events)
    if not steered:
        return set()
    return {number for act in steering.acts for number in act.about} | _given_back(events)


def _given_back(events: Iterable[RunEvent]) -> set[int]:
    """Nodes of undone acts on many: the undo names the act only. One query where there is one."""
    undone = [(event.run_id, event.payload["act"]) for event in events if event.payload.get("verb") == "steer.bulk"]
    if not undone:
        return set()
    seqs = [seq for _, seq in undone]
    rows = RunEvent.objects.filter(run=undone[0][0], kind__in=("steer.bulk", "steer.pin"))
    found: set[int] = set()
    for seq, payload in rows.filter(Q(seq__in=seqs) | Q(payload__of__in=seqs)).values_list("seq", "payload"):
        acts = Act.of_many(seq, payload) if "verb" in payload else ()
        found.update(*(act.about for act in acts), [payload["number"]] if "number" in payload else [])
    return found
