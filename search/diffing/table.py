"""Rows of the table of a difference. The other place with `mark_safe`: its cells are escaped by the highlighter."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from django.utils.safestring import SafeString, mark_safe

NOTHING = SafeString("")
_VOID = '<td class="ln {0} void"></td><td class="lc {0} void"></td>'


@dataclass(frozen=True)
class Cell:
    """One line of one text: its number from 1 and its highlighted, escaped HTML."""

    number: int
    html: SafeString


Row = tuple[Cell | None, Cell | None]


def equal(rows: Sequence[Row], *, unified: bool) -> SafeString:
    """Rows of lines that both texts have."""
    if not unified:
        return _joined(_split(row) for row in rows)
    return _joined(_line(old.number, new.number, new.html) for old, new in rows if old is not None and new is not None)


def change(rows: Sequence[Row], *, unified: bool) -> SafeString:
    """Rows of lines that differ; unified: first all old lines, then all new ones."""
    if not unified:
        return _joined(_split(row) for row in rows)
    gone = (_line(old.number, None, old.html, "old") for old, _ in rows if old is not None)
    come = (_line(None, new.number, new.html, "new") for _, new in rows if new is not None)
    return _joined([*gone, *come])


def _split(row: Row) -> str:
    return f"<tr>{_side(row[0], 'old')}{_side(row[1], 'new')}</tr>"


def _side(cell: Cell | None, side: str) -> str:
    if cell is None:
        return _VOID.format(side)
    return f'<td class="ln {side}" data-n="{cell.number}"></td><td class="lc {side}">{cell.html}</td>'


def _line(old: int | None, new: int | None, html: SafeString, side: str = "both") -> str:
    numbers = "".join(
        '<td class="ln"></td>' if number is None else f'<td class="ln" data-n="{number}"></td>' for number in (old, new)
    )
    return f'<tr>{numbers}<td class="lc {side}">{html}</td></tr>'


def _joined(rows: Iterable[str]) -> SafeString:
    return mark_safe("".join(rows))
