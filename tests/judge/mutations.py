"""Values that no honest process sends, and honest ones with one field changed: strategies of hypothesis."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st

ODD_TEXTS = ["", "\x00", "\ud800", "x" * 70_000, "é" * 300, "load.died", "nan", "../..", "1"]
ODD_NUMBERS: list[Any] = [
    -1, 0, 1, 1.5, -0.0, float("nan"), float("inf"), -float("inf"), 1e308, 2**31, 2**53, 2**63, 2**64, -(2**63),
    10**400, -(10**400),
]  # fmt: skip


def deep(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


ODD: list[Any] = [
    None, True, False, [], {}, [[]], [{}], [None] * 30_000, deep(300), {"t": 0}, {"a": {"b": [1]}}, *ODD_TEXTS,
    *ODD_NUMBERS,
]  # fmt: skip
LEAVES = (
    st.sampled_from([value for value in ODD if not isinstance(value, list | dict)])
    | st.integers()
    | st.text(max_size=9)
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner, max_size=4),
    max_leaves=12,
)


def paths(value: Any) -> list[tuple[Any, ...]]:
    """The way to every part of a value."""
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [(), *((key, *rest) for key, part in parts for rest in paths(part))]


def changed(value: Any, path: tuple[Any, ...], how: str, odd: Any) -> Any:
    """A copy of `value` in which the part at `path` is replaced by `odd`, missing, doubled or wrapped."""
    value = copy.deepcopy(value)
    if not path:
        return odd
    at = value
    for step in path[:-1]:
        at = at[step]
    last = path[-1]
    if how == "replace":
        at[last] = odd
    elif how == "wrap":
        at[last] = [at[last]]
    elif how == "double":
        at[last] = [at[last]] * 2 if isinstance(at, dict) else at[last]
        if isinstance(at, list):
            at.append(copy.deepcopy(at[last]))
    else:
        del at[last]
    return value


def mutated(value: Any) -> st.SearchStrategy[Any]:
    """`value` with one part of it changed."""
    return st.builds(
        changed,
        st.just(value),
        st.sampled_from([path for path in paths(value) if path]),
        st.sampled_from(["replace", "replace", "replace", "drop", "wrap", "double"]),
        st.sampled_from(ODD) | JSON,
    )
