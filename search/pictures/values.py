"""A picture as a value: shapes in per cent of a panel, a caption, and its table. Pure; templates draw the SVG.

Widths and heights are per cent of the panel, so that it fits every screen while text and marks keep their size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from adaexplore_site.core.plots import Strips, Tick
from judge.evaluations.measures import Measure
from judge.values import Basis

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ROWS_SHOWN = 200  # of a table on the page; the files hold all
MEASURE_PARTS = ("", "_low", "_high", "_n", "_basis")


@dataclass(frozen=True)
class Path:
    """A stroke or an area in a box of 100 by 100; `kind` is its CSS class."""

    kind: str
    d: str


@dataclass(frozen=True)
class Rule:
    """A straight line, with a name at its end where it has one."""

    kind: str
    x1: float
    y1: float
    x2: float
    y2: float
    label: str = ""

    @classmethod
    def across(cls, kind: str, y: float, label: str = "") -> Self:
        """From the left edge to the right one."""
        return cls(kind, 0, y, 100, y, label)


@dataclass(frozen=True)
class Spot:
    """A state's mark at a place; `number` is the node it stands for, `label` its text beside it."""

    style: str
    x: float
    y: float
    title: str = ""
    label: str = ""


@dataclass(frozen=True)
class Tile:
    """A rectangle with lines of text: a cell of a grid."""

    kind: str
    x: float
    y: float
    width: float
    height: float
    texts: tuple[str, ...] = ()

    @property
    def middle(self) -> float:
        return self.x + self.width / 2

    @property
    def centre(self) -> float:
        return self.y + self.height / 2


@dataclass(frozen=True)
class Panel:
    """Shapes over two axes, `height` pixels high."""

    says: str  # for whoever does not see it
    title: str = ""  # among several of one picture
    height: int = 240
    x_name: str = ""
    x_ticks: tuple[Tick, ...] = ()
    y_ticks: tuple[Tick, ...] = ()
    paths: tuple[Path, ...] = ()
    rules: tuple[Rule, ...] = ()
    spots: tuple[Spot, ...] = ()
    tiles: tuple[Tile, ...] = ()
    grid: bool = True


@dataclass(frozen=True)
class NodeRef:
    """A node by its number, in a table."""

    number: int


Cell = str | int | float | None | Measure | NodeRef | Basis


@dataclass(frozen=True)
class Table:
    """The values behind a picture. `columns` gives the head on the page by the name in the files; None is unknown.

    `cells` makes the cells of a row when somebody reads it: a page shows few of thousands.
    """

    columns: Mapping[str, StrOrPromise] = field(default_factory=dict)
    rows: Sequence[Any] = ()
    cells: Callable[[Any], tuple[Cell, ...]] = tuple

    @property
    def shown(self) -> list[list[tuple[StrOrPromise, Cell]]]:
        """The first rows, each cell with the head of its column."""
        return [list(zip(self.columns.values(), self.cells(row), strict=True)) for row in self.rows[:ROWS_SHOWN]]

    @property
    def hidden(self) -> int:
        return max(0, len(self.rows) - ROWS_SHOWN)


@dataclass(frozen=True)
class Picture:
    """One picture. Without panels `says` tells what is missing and how it would come; `notes` what is left out."""

    says: str
    panels: tuple[Panel, ...] = ()
    strips: Strips | None = None
    table: Table = Table()
    notes: Sequence[str] = ()
    alarms: Sequence[str] = ()
    key: tuple[tuple[str, str], ...] = ()  # (style, label) of the states in it
    choices: tuple[tuple[str, str, bool], ...] = ()  # (value of x, label, chosen)
    timed: bool = True  # holds times or speedups, so that its basis is named
    name: str = ""  # in addresses
    title: str = ""

    @property
    def drawn(self) -> bool:
        return bool(self.panels) or self.strips is not None

    def document(self) -> dict[str, Any]:
        """Everything but places: what the JSON file holds beside the search's own facts."""
        return {"picture": self.name, "says": self.says, "notes": list(self.notes), "rows": self.records()}

    def records(self) -> list[dict[str, Any]]:
        """One plain mapping per row; a speedup becomes its value with interval, count and basis."""
        table = self.table
        return [
            dict(part for name, cell in zip(table.columns, table.cells(row), strict=True) for part in plain(name, cell))
            for row in table.rows
        ]


def plain(name: str, cell: Cell) -> list[tuple[str, Any]]:
    """A cell as columns of a file."""
    if isinstance(cell, Measure):
        values = (cell.value, cell.low, cell.high, cell.n, cell.basis.value)
        return [(f"{name}{part}", value) for part, value in zip(MEASURE_PARTS, values, strict=True)]
    if name == "speedup":
        return [(f"{name}{part}", None) for part in MEASURE_PARTS]
    if isinstance(cell, NodeRef):
        return [(name, cell.number)]
    return [(name, cell.value if isinstance(cell, Basis) else cell)]
