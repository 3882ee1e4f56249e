"""Frozen values back from plain JSON, by the annotations of their classes. Standard library only."""

from __future__ import annotations

import dataclasses
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
