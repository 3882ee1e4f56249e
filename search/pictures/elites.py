"""Map of elites: the cells that the policy `map_elites` keeps one kernel of each in."""

from __future__ import annotations

import math
from collections import Counter

from adaexplore_site.core.plots import Tick
from search.algorithm.params import SearchParams
from search.algorithm.policies.map_elites import elites_of
from search.pictures.book import Book
from search.pictures.values import NodeRef, Panel, Picture, Table, Tile
from search.records.facts import cells_of, tree_of
from search.records.kernel_cells import LAUNCHES, PATTERNS, UNREADABLE
from search.records.steering_log import steering_of

NAME, TITLE = "elites", "Map of elites"
NAMES = ("launches", "pattern", "node", "speedup", "correct_kernels")
HEADS = ("Kernels launched", "Arithmetic pattern", "Elite", "Speedup over eager", "Correct kernels in the cell")
SHADES = (1.0, 1.25, 2.0, 4.0)  # speedups from which a cell is a shade darker
MEANING = (
    "To the right: how many kernels the module launches, by call sites in its source. Down: the arithmetic of its "
    "kernels, the first that applies of dot products, scans, reductions and element by element, with + where they use "
    "atomics. In each cell its elite, the correct kernel with the highest reward, and how many correct ones it holds."
)


def elites(book: Book) -> Picture:
    """Replayed from the rows as the policy itself would, people's acts included."""
    steering = steering_of(book.run.pk)
    params = steering.params(SearchParams.of_run(book.run.params))
    if params.policy != "map_elites":
        return Picture(
            NAME,
            TITLE,
            f"The policy of this search, {params.policy}, keeps no map of elites; map_elites does.",
            timed=False,
        )
    tree = tree_of(book.rows, params)
    steering.mark(tree)
    found = elites_of(tree, tree.root)
    if not found:
        return Picture(NAME, TITLE, "No kernel is correct yet, so every cell is empty. " + MEANING)
    by_number = {row.number: row for row in book.rows}
    counts = Counter(cells_of(book.rows).values())
    cells = {_split(cell): (by_number[branch.number], counts[cell]) for cell, branch in found.items()}
    rows = []
    for (launches, pattern), (row, count) in sorted(cells.items(), key=lambda item: _order(*item[0])):
        rows.append((launches, pattern, NodeRef(row.number), book.speedup(row), count))
    says = f"{len(cells)} cell{'s' * (len(cells) != 1)} with a correct kernel. {MEANING}"
    columns = [name for name in LAUNCHES if any(launches == name for launches, _ in cells)]
    lines = sorted({pattern for _, pattern in cells}, key=lambda pattern: _order("", pattern))
    if any(launches == UNREADABLE for launches, _ in cells):
        columns.append(UNREADABLE)
    wide, high = 100 / len(columns), 100 / len(lines)
    tiles = []
    for x, launches in enumerate(columns):
        for y, pattern in enumerate(lines):
            place = (round(x * wide, 2), round(y * high, 2), round(wide, 2), round(high, 2))
            known = cells.get((launches, pattern))
            if known is None:
                tiles.append(Tile("tile-empty", *place, ("—",)))
                continue
            row, count = known
            measure = book.speedup(row)
            said = (f"node {row.number}", measure.number if measure else "not timed", f"{count} correct")
            tiles.append(Tile(f"tile-{_shade(row.speedup)}", *place, said))
    panel = Panel(
        title=TITLE,
        says=says,
        height=max(90, 76 * len(lines)),
        x_name="kernels launched",
        x_ticks=tuple(Tick(round((x + 0.5) * wide, 2), name) for x, name in enumerate(columns)),
        y_ticks=tuple(Tick(round((y + 0.5) * high, 2), name) for y, name in enumerate(lines)),
        tiles=tuple(tiles),
        grid=False,
    )
    return Picture(NAME, TITLE, says, (panel,), None, Table(NAMES, HEADS, tuple(rows)), book.left_out())


def _split(cell: str) -> tuple[str, str]:
    launches, colon, pattern = cell.partition(":")
    return (launches, pattern) if colon else (cell, cell)


def _order(launches: str, pattern: str) -> tuple[int, str]:
    return (
        PATTERNS.index(pattern.removesuffix("+atomic")) if pattern.removesuffix("+atomic") in PATTERNS else 9,
        f"{pattern}{launches}",
    )


def _shade(speedup: float | None) -> int:
    """0 below eager, then one more at each of SHADES."""
    return sum(not math.isnan(speedup or math.nan) and (speedup or 0.0) >= least for least in SHADES)
