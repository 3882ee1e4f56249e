"""Which earlier node of a run a kernel is equal or near-equal to."""

from __future__ import annotations

from dataclasses import dataclass

from search.engine.sketches import NEAR, jaccard, likely, shingles
from search.records.models import Node


@dataclass(frozen=True)
class Near:
    """An earlier node with much the same kernel. `share` is 0.95..1; `equal` when only layout and comments differ."""

    number: int
    share: float
    equal: bool = False

    @property
    def percent(self) -> int:
        """The share for people, rounded down."""
        return int(self.share * 100)


def near_of(node: Node) -> Near | None:
    """The first equal node of the run, else the nearest with a share of 0.95 or more. At most three queries."""
    if not node.source_hash:
        return None
    earlier = Node.objects.filter(run_id=node.run_id, number__lt=node.number).exclude(source_hash="").order_by("number")
    equal = earlier.filter(source_hash=node.source_hash).values_list("number", flat=True).first()
    if equal is not None:
        return Near(equal, 1.0, equal=True)
    rows = list(earlier.values_list("number", "sketch"))
    numbers = [rows[place][0] for place in likely(bytes(node.sketch), [bytes(row[1]) for row in rows])]
    sources = dict(earlier.filter(number__in=numbers).values_list("number", "source")) if numbers else {}
    mine = shingles(node.source) if sources else frozenset()
    shares = [(jaccard(mine, shingles(sources[number])), -number) for number in numbers]
    share, number = max(shares, default=(0.0, 0))
    return Near(-number, share) if share >= NEAR else None
