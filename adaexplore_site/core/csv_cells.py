"""Cells of CSV files that spreadsheets take for text: a leading apostrophe before what would be a formula."""

from __future__ import annotations

FORMULA = ("=", "+", "-", "@", "\t", "\r")


def safe(value: object) -> object:
    """The value; of a text that begins like a formula, the text with an apostrophe before it."""
    return f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
