"""Columns written so that gzip makes little of them: a snapshot of 10,000 nodes travels in a third of its bytes.

static/js/unpack.js reads them. Numbers that grow are written as steps, a parent and a time relative to the node's own
number and birth, an interval relative to its speedup. What a page prints stays the same in its last digit.
"""

from __future__ import annotations

import math
from typing import Any

from judge.values import Basis

MEASURED = Basis.MEASURED.value
GROWING = ("n", "o")  # whole numbers, told order with gaps of null


def packed(columns: dict[str, list[Any]]) -> dict[str, Any]:
    """The same columns in short; `packed` says so. b and t in tenths of a second."""
    births = [round(10 * born) for born in columns["b"]]
    short: dict[str, Any] = {**columns, "packed": 1}
    short |= {name: _steps(columns[name]) for name in GROWING}
    short["p"] = [number - parent for number, parent in zip(columns["n"], columns["p"], strict=True)]
    short["t"] = [None if t is None else round(10 * t) - b for t, b in zip(columns["t"], births, strict=True)]
    short["b"] = _steps(births)
    for name in ("lo", "hi"):
        ends = zip(columns[name], columns["x"], columns["bs"], strict=True)
        short[name] = [None if end is None or x is None else _end(end, x, basis) for end, x, basis in ends]
    return short


def _steps(values: list[int | None]) -> list[int | None]:
    """Each value less the one before it; unknown ones are passed over."""
    last, steps = 0, []
    for value in values:
        steps.append(None if value is None else value - last)
        last = last if value is None else value
    return steps


def _end(end: float, speedup: float, basis: str) -> float:
    """An end of an interval. Measured: hundredths from the speedup's, as pages print two decimals. Else a factor."""
    if basis == MEASURED:
        return round(100 * float(f"{end:.2f}")) - math.floor(100 * speedup + 0.5)
    return float(f"{end / speedup:.6g}")
