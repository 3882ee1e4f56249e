"""A report as HTML: the parts a page shows, and one file that opens from disk without scripts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from django.template.loader import render_to_string

from search.interchange.provenance import PRODUCT, product_version
from search.reports.document import notes
from search.reports.plots import Bar, Picture, bars, progress_picture, shares_picture
from search.reports.values import OVER, RULES, Block, Figure, Line, Report

STYLE = Path(__file__).resolve().parent.parent.parent / "static" / "css" / "report.css"


@dataclass(frozen=True)
class Row:
    """One aggregate with a cell per population and baseline."""

    label: str
    cells: tuple[tuple[str, Figure], ...]  # with the head of its column


@dataclass(frozen=True)
class Shown:
    """One block, laid out."""

    block: Block
    heads: tuple[str, ...]  # "judged, over eager", ...
    rows: tuple[Row, ...]
    unknown: tuple[str, ...]
    notes: list[str]
    pictures: tuple[Picture, ...]
    lines: tuple[tuple[Line, Bar | None], ...]


def shown(block: Block) -> Shown:
    """Columns nobody has a number for, such as torch.compile on the interpreter, are left out."""
    tables = [table for table in block.tables if table.timed and block.lines]
    metrics = [figure.label for figure in tables[0].figures] if tables else []
    heads = tuple(f"{table.population}, over {OVER[table.over]}" for table in tables)
    columns = list(zip(heads, tables, strict=True))
    rows = (
        Row(label, tuple((head, table.figures[place]) for head, table in columns))
        for place, label in enumerate(metrics)
    )
    pictures = (shares_picture(block), progress_picture(block))
    return Shown(
        block=block,
        heads=heads,
        rows=tuple(rows),
        unknown=tuple(
            f"{table.unknown} correct, not timed against {OVER[table.over]} ({table.population}): not in that column."
            for table in tables
            if table.unknown
        ),
        notes=notes(block),
        pictures=tuple(picture for picture in pictures if picture),
        lines=tuple(zip(block.lines, bars(block), strict=True)),
    )


def report_context(report: Report) -> dict[str, object]:
    """What the templates need."""
    return {"report": report, "blocks": [shown(block) for block in report.blocks], "rule_says": RULES[report.rule]}


def report_html(report: Report) -> str:
    """The whole report as one HTML file."""
    context = report_context(report) | {
        "style": STYLE.read_text(encoding="utf-8"),
        "product": f"{PRODUCT} {product_version()}",
    }
    return render_to_string("reports/standalone.html", context)
