"""Frozen values back from plain JSON, by the annotations of their classes. Standard library only."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from enum import Enum
from functools import cache
from types import UnionType
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

Value = TypeVar("Value")

# What building a value from JSON of others may raise.
MALFORMED = (TypeError, ValueError, KeyError, AttributeError, OverflowError, RecursionError)


def rebuilt(kind: type[Value], row: dict[str, Any]) -> Value:
    """The inverse of `dataclasses.asdict`: the dataclass `kind`, which checks itself.

    Properties that were written beside the fields are passed over. Raises TypeError, KeyError, ValueError or
    OverflowError when malformed.
    """
    hints = _hints(kind)
    given = {
        name: value for name, value in json_object(row).items() if not isinstance(getattr(kind, name, None), property)
    }
    return kind(**{name: _value(hints[name], value) for name, value in given.items()})


LARGEST_WHOLE = 1 << 63  # what a database or another program may take for a number


def finite(value: Any) -> Any:
    """`value`, of plain JSON types, with NaN and infinities as None: JSON has no word for them."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(finite(item) for item in value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def strict(value: Value) -> Value:
    """`value`, as JSON of others gave it. Raises ValueError where any number in it, however deep, is NaN, infinite or
    beyond 64 bits: not every reader and no database takes these."""
    waiting: list[Any] = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.values()
        elif isinstance(one, list | tuple):
            waiting += one
        elif isinstance(one, float) and not math.isfinite(one):
            raise ValueError("a number that JSON has no word for")
        elif isinstance(one, int) and not -LARGEST_WHOLE <= one < LARGEST_WHOLE:
            raise ValueError("a whole number of more than 64 bits")
    return value


def json_object(value: Any) -> dict[str, Any]:
    """An object of JSON; `dict` would take an empty text or a list of pairs for one, too."""
    if not isinstance(value, dict):
        raise TypeError(f"an object is needed, not {type(value).__name__}")
    return value


_hints: Callable[[type], dict[str, Any]] = cache(get_type_hints)


def _value(hint: Any, value: Any) -> Any:
    """A value of the type that was annotated; what else its class demands of it, that checks."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin is UnionType:  # X | None
        return None if value is None else _value(inner[0], value)
    if origin is tuple:  # of any length
        return tuple(_value(inner[0], item) for item in _plain(list | tuple, value))
    if origin is dict:
        return {key: _value(inner[1], item) for key, item in json_object(value).items()}
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return rebuilt(hint, value)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(value)
    return _plain(_PLAIN[hint], value) if hint in _PLAIN else value


_PLAIN: dict[Any, Any] = {str: str, bool: bool, int: int, float: int | float}


def _plain(kinds: Any, value: Any) -> Any:
    """`value` if it is of one of these kinds: a truth value is no number, and a number fits a float."""
    if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
        raise TypeError(f"{type(value).__name__} is none of what is needed here")
    if type(value) is int:
        float(value)  # raises OverflowError
    return value
