"""Makes values from a child fit for a JSON column: PostgreSQL takes no NUL, lone surrogate, NaN or infinity."""

from __future__ import annotations

import math
from typing import Any


def storable(value: Any) -> Any:
    """`value` with tuples as lists, NaN and infinities as None, and text that every database accepts."""
    if isinstance(value, dict):
        return {storable_text(str(key)): storable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [storable(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, str):
        return storable_text(value)
    return value


def storable_text(text: str) -> str:
    """`text` with NUL and lone surrogates replaced by U+FFFD."""
    return text.replace("\x00", "\ufffd").encode("utf-8", "replace").decode("utf-8")


def clip(text: str, length: int) -> str:
    """At most `length` storable characters, the cut marked."""
    text = storable_text(text)
    return text if len(text) <= length else text[: length - 1] + "…"


def counted(count: int, noun: str) -> str:
    """`1 node`, `2 nodes`."""
    return f"{count} {noun}" + ("" if count == 1 else "s")
