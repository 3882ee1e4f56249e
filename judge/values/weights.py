"""How a case of `get_cases()` says how much its speedup counts. Standard library only."""

from __future__ import annotations

import math
from collections.abc import Mapping

WEIGHT = "weight"  # the key beside a case's constants
MOST_WEIGHTED = 8  # cases: each is timed in processes of its own
NAME_CHARS = 200  # of a case with a weight
UNWEIGHTED = 0.0  # of a case that says none: it is checked, and does not count


def weight_of(case: str, constants: Mapping[str, object]) -> float:
    """What the entry says; 0 where it says nothing. Raises ValueError that names the case."""
    if WEIGHT not in constants:
        return UNWEIGHTED
    if len(case) > NAME_CHARS or not case.isprintable():
        raise ValueError(f"{_of(case)} needs a case whose name has at most {NAME_CHARS} characters, all printable")
    value = constants[WEIGHT]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{_of(case)} is {type(value).__name__}: {_WHAT}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not 0 < number < math.inf:
        raise ValueError(f"{_of(case)} is {number:g}: {_WHAT}")
    return number


def check_number(weights: Mapping[str, float]) -> None:
    """Raise ValueError when more cases carry a weight than one evaluation can time."""
    count = sum(weight > 0 for weight in weights.values())
    if count > MOST_WEIGHTED:
        raise ValueError(f"{count} cases of get_cases() carry a weight; at most {MOST_WEIGHTED} may")


_WHAT = "write a positive, finite number, or leave it out for a case that is checked and not timed"


def _of(case: str) -> str:
    return f"the weight of case {case[:80]!r}"
