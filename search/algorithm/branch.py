"""One node of the search tree in memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Branch:
    """One node with the statistics of the subtree below it: `visits`, `pending`, `total` and `best` reward."""

    number: int
    parent: Branch | None
    kind: str
    depth: int
    children: list[Branch] = field(default_factory=list)  # in the order of reservation: ties go to the first
    told: bool = False
    order: int = 0  # place in completion order, 0 until told
    visits: int = 0
    pending: int = 0
    total: float = 0.0
    best: float = 0.0
    own: float = 0.0  # its own reward as it counts now
    speedup: float | None = None
    written: bool = False
    cell: str = ""
    closed: bool = False  # pruned by a person, itself or from above: never selected
    boost: float = 0.0  # added by a person to its score, nowhere else

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def up(self) -> Iterable[Branch]:
        """The node itself, then its ancestors up to the root."""
        branch: Branch | None = self
        while branch is not None:
            yield branch
            branch = branch.parent

    def down(self) -> Iterable[Branch]:
        """The node itself, then everything below it."""
        stack = [self]
        while stack:
            branch = stack.pop()
            yield branch
            stack.extend(reversed(branch.children))
