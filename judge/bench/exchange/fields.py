"""Fields of JSON that came from a process which may run foreign code: as they were agreed, or BadClaim. Nothing else.

Standard library only.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, TypeVar

NAME, TEXT = 200, 400  # characters of what identifies something, of what describes it
WHOLE = 1 << 50  # no honest count of launches, bytes or operations comes near, and sums of many fit 64 bits
SIZE = 1 << 62  # of a dimension, or a stride
DIMS = 64
LONGEST_US = 1e12

_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")  # what some database or encoder refuses

Value = TypeVar("Value")


class BadClaim(ValueError):
    """What a process says does not have the form that was agreed. The text names the field, never its content."""


def need(fits: bool, what: str) -> None:
    if not fits:
        raise BadClaim(what)


class Fields:
    """One JSON object. `what` names it in messages. A field that may be missing has a default."""

    def __init__(self, value: Any, what: str) -> None:
        need(type(value) is dict, f"{what} that is no object")
        self._value: dict[str, Any] = value
        self.what = what

    def __contains__(self, key: str) -> bool:
        return key in self._value

    def raw(self, key: str) -> Any:
        """The field as it is, for a reader of its own form."""
        need(key in self._value, f"{self.what} without {key}")
        return self._value[key]

    def name(self, key: str, most: int = NAME) -> str:
        """Text by which something is known: not empty, and the same wherever it is stored."""
        value = name_of(self.raw(key), f"{key} of {self.what}", most)
        need(bool(value), f"an empty {key} of {self.what}")
        return value

    def word(self, key: str, words: tuple[str, ...] | frozenset[str]) -> str:
        """One of a few words."""
        value = self.raw(key)
        need(type(value) is str and value in words, f"an unknown {key} of {self.what}")
        return str(value)

    def text(self, key: str, most: int = TEXT) -> str:
        """Words for people, "" where there are none: shortened, and without characters that cannot be stored."""
        return text_of(self._value.get(key, ""), f"{key} of {self.what}", most)

    def flag(self, key: str, default: bool | None = None) -> bool:
        value = self._value.get(key, default)
        need(type(value) is bool, f"{key} of {self.what} that is neither yes nor no")
        return bool(value)

    def whole(self, key: str, default: int | None = None, most: int = WHOLE) -> int:
        """A count: a whole number from zero on."""
        value = self._value.get(key, default)
        need(type(value) is int and 0 <= value <= most, f"{key} of {self.what} that is no count")
        return int(value)  # type: ignore[arg-type]  # it is one

    def counts(self, key: str, kinds: frozenset[str]) -> dict[str, int]:
        """An object of counts under some of the names `kinds`."""
        found = Fields(self.raw(key), f"{key} of {self.what}")
        need(found._value.keys() <= kinds, f"{found.what} with an unknown name")
        return {kind: found.whole(kind) for kind in found._value}

    def perhaps_whole(self, key: str) -> int | None:
        """A count, or null where it is not known."""
        return None if self._value.get(key) is None else self.whole(key)

    def number(self, key: str, most: float) -> float:
        """A finite number from zero to `most`."""
        return float_of(self.raw(key), f"{key} of {self.what}", most)

    def micros(self, key: str, default: float | None = None) -> float:
        """A time in microseconds: finite, from zero on, and less than a fortnight."""
        return float_of(self._value.get(key, default), f"{key} of {self.what}", LONGEST_US)

    def rows(self, key: str, read: Callable[[Any], Value], most: int, *, most_bytes: int = 0) -> tuple[Value, ...]:
        """A list, each item as `read` takes it; () where there is none. `most_bytes`: as JSON, all together."""
        rows = self._value.get(key, [])
        need(type(rows) is list and len(rows) <= most, f"{key} of {self.what} that is no list of at most {most}")
        found = tuple(read(row) for row in rows)
        if most_bytes:  # after each was found to be shallow
            need(len(json.dumps(rows)) <= most_bytes, f"{key} of {self.what} that is longer than {most_bytes:,} bytes")
        return found


def name_of(value: Any, what: str, most: int = NAME) -> str:
    need(type(value) is str and len(value) <= most and not _UNSTORABLE.search(value), f"{what} that is no name")
    return str(value)


def text_of(value: Any, what: str, most: int = TEXT) -> str:
    need(type(value) is str, f"{what} that is no text")
    return _UNSTORABLE.sub("\ufffd", value[:most])


def float_of(value: Any, what: str, most: float) -> float:
    """A finite number from zero to `most`."""
    need(type(value) in (int, float) and 0 <= value <= most, f"{what} that is no number from 0 to {most:g}")
    return float(value)


def sizes_of(value: Any, what: str) -> tuple[int, ...]:
    """A shape."""
    need(type(value) is list and len(value) <= DIMS, f"{what} that is no shape")
    need(all(type(size) is int and 0 <= size < SIZE for size in value), f"{what} with a size that is none")
    return tuple(value)


def is_finite(value: Any) -> bool:
    return type(value) is float and math.isfinite(value)
