"""Lineage: from the start to the best kernel, step by step, on the one scale of speedups."""

from __future__ import annotations

from adaexplore_site.core.plots import Tick, speedup_axis, speedup_ticks
from judge.sources.highlighting import visible
from search.pictures.book import Book
from search.pictures.values import NodeRef, Panel, Path, Picture, Rule, Spot, Table
from search.records.facts import NodeRow
from search.records.winning import nothing_faster

NAME, TITLE = "lineage", "Lineage of the best kernel"
NAMES = ("node", "step", "result", "speedup", "summary")
HEADS = ("Node", "Step", "Result", "Speedup over eager", "Change described by the proposer")
LABELS = 14  # numbers drawn beside marks; the table has all


def lineage(book: Book) -> Picture:
    """The path of parents. A node that failed stands at the foot: it was repaired or taken up by its child."""
    if book.leader is None:
        return Picture(NAME, TITLE, "There is no best kernel yet, so there is no lineage to show.")
    by_id = {row.id: row for row in book.rows}
    line: list[NodeRow] = [book.leader]
    while (parent := line[-1].parent) is not None:
        line.append(by_id[parent])
    line.reverse()
    steps = line[1:]
    table = Table(
        NAMES,
        HEADS,
        tuple(
            (
                NodeRef(row.number),
                f"{row.kind} step",
                row.verdict.replace("_", " "),
                book.speedup(row),
                visible(row.summary),
            )
            for row in steps
        ),
    )
    large = sum(row.kind == "large" for row in steps)
    failed = sum(book.speedup(row) is None for row in steps)
    depth = f"{len(steps)} step{'s' * (len(steps) != 1)}"
    said = "" if book.best else f"{nothing_faster(ended=book.run.ended)}; this is the line of the closest kernel. "
    said += f"Node {book.leader.number} stands {depth} below the start, {large} of them large."
    if failed:
        said += f" {failed} kernel{'s' * (failed != 1)} on the way did not pass."
    key = (("best", "best"), ("correct", "correct"), ("slower", "slower than eager"), ("wrong", "did not pass"))
    return Picture(NAME, TITLE, said, (_panel(book, line, said),), None, table, book.left_out(), (), key)


def _panel(book: Book, line: list[NodeRow], says: str) -> Panel:
    up = speedup_axis([row.speedup for row in line if row.speedup], 84.0, 14.0)
    gap = 92.0 / max(1, len(line) - 1)
    places = [
        (4.0 + gap * place, up.at(1.0) if not place else up.at(row.speedup) if row.speedup else 97.0)
        for place, row in enumerate(line)
    ]
    paths = [
        Path(f"edge edge-{row.kind}", f"M{x1:.2f} {y1}L{x2:.2f} {y2}")
        for row, (x1, y1), (x2, y2) in zip(line[1:], places, places[1:], strict=False)
    ]
    stride = 1 + (len(line) - 1) // LABELS
    spots = []
    for place, (row, (x, y)) in enumerate(zip(line, places, strict=True)):
        last = place == len(line) - 1
        look = "best" if last and book.best else book.look(row)
        label = "start" if not place else str(row.number) if last or not place % stride else ""
        spots.append(
            Spot(look, round(x, 2), y, f"node {row.number}: {book.speedup(row) or row.verdict or 'start'}", label)
        )
    stops = (Tick(4.0, "0"), Tick(96.0, str(len(line) - 1)))
    return Panel(
        title=TITLE,
        says=says,
        height=200,
        x_name="steps from the start",
        x_ticks=stops,
        y_ticks=speedup_ticks(up, 4),
        paths=tuple(paths),
        rules=(Rule("rule-one", 0, up.at(1.0), 100, up.at(1.0), ""),),
        spots=tuple(spots),
    )
