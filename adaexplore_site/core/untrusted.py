"""Text of strangers on its way into a prompt or a row: storable, on one line, inside a fence. Pure."""

from __future__ import annotations

import re

MOST_CHARS = 512 * 1024
LINE_CHARS = 200
SOURCE_CHARS = 128 * 1024


def storable(text: str, limit: int = MOST_CHARS) -> str:
    """`text` as every database takes it: no NUL, no lone surrogates, at most `limit` characters."""
    clean = text.replace("\x00", "\\x00").encode("utf-8", "backslashreplace").decode()
    return clean if len(clean) <= limit else clean[:limit] + f"\n[cut: {len(clean) - limit} more characters]"


def one_line(text: str, limit: int = LINE_CHARS) -> str:
    """`text` as one line of printable characters, at most `limit` of them."""
    flat = " ".join("".join(char if char.isprintable() else " " for char in text).split())
    return flat if len(flat) <= limit else flat[: limit - 1] + "…"


def fenced(text: str, language: str = "", limit: int = SOURCE_CHARS) -> str:
    """`text` inside a fence longer than any run of backticks in it, so that nothing inside can close it."""
    text = storable(text, limit).replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"
