"""Text and values of strangers on their way into a row, a prompt or a page."""

from __future__ import annotations

import math
import re
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


MOST_CHARS = 512 * 1024
LINE_CHARS = 200
SOURCE_CHARS = 128 * 1024


def escaped(text: str, limit: int = MOST_CHARS) -> str:
    """`text` as every database takes it: no NUL, no lone surrogates, at most `limit` characters."""
    clean = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= limit else clean[:limit] + f"\n[cut: {len(clean) - limit} more characters]"


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    """`text` as one line of printable characters, at most `limit` of them."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def fenced(text: str, language: str = "", limit: int = SOURCE_CHARS) -> str:
    """`text` inside a fence longer than any run of backticks in it, so that nothing inside can close it."""
    text = escaped(text, limit).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
