"""Keeps foreign text short enough for columns and events."""

from __future__ import annotations

from adaexplore_site.core.text import storable_text


def clip(text: str, length: int) -> str:
    """At most `length` storable characters, the cut marked."""
    text = storable_text(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def counted(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
