"""What a difference is: options, blocks of rows, folds. Plain values that can be kept in a cache."""

from __future__ import annotations

from dataclasses import dataclass, field

from django.utils.safestring import SafeString

PAGE_LINES = 2_000  # of either text; above: on demand
MOST_LINES, MOST_CHARS = 20_000, 1_000_000  # of either text; above: download only
CONTEXT = 3  # unchanged lines kept around a change

PAGE, DEMAND, FILE, SLOW = "", "demand", "file", "slow"  # Diff.too_large
ASIDE_LINES = 400  # of either text; above: in a process of its own, so that pages of others do not wait
ASIDE_S = 5.0


@dataclass(frozen=True)
class Options:
    """How to compare and to show. `opened` holds numbers of folds, `whole` opens all; `large` was asked for."""

    unified: bool = False
    ignore_space: bool = False
    opened: frozenset[int] = frozenset()
    whole: bool = False
    large: bool = False
    plain: bool = False  # no Python: shown without colours


@dataclass(frozen=True)
class Part:
    """A stretch of the table. `kind` is equal, change or fold.

    `html` holds its rows. A fold has a `number` from 1 and says whether it is `open`; `hunk` is set where one begins.
    """

    kind: str
    html: SafeString
    lines: int = 0
    number: int = 0
    open: bool = False
    hunk: int = 0


@dataclass(frozen=True)
class Diff:
    """The whole comparison. `too_large` and `unaligned` say why it is shorter or coarser than usual."""

    parts: tuple[Part, ...] = ()
    added: int = 0
    removed: int = 0
    lines: int = 0  # of the longer text
    too_large: str = PAGE
    unaligned: bool = False  # too repetitive to align: shown as one replacement
    cut: int = 0  # changed rows that are left out, because no page bears more
    hidden: tuple[int, ...] = ()  # lines of the new text with bidirectional, invisible or control characters
    hidden_old: tuple[int, ...] = ()
    options: Options = field(default_factory=Options)

    @property
    def same(self) -> bool:
        """True when both texts are equal up to line ends, or up to blanks where those do not count."""
        return not self.added and not self.removed and not self.too_large

    @property
    def hunks(self) -> int:
        """How many places differ."""
        return sum(1 for part in self.parts if part.hunk)

    @property
    def folds(self) -> int:
        """How many stretches of equal lines are folded, or were before they were opened."""
        return sum(1 for part in self.parts if part.kind == "fold")
