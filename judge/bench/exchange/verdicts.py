"""The signed verdict of a referee, as a value that a referee may give.

The problem's code runs in that process and could find the key there. What it then says of its own kernels is its
owner's business. A verdict that only the runner gives, or a value that no row can hold, would count against the device
or end the worker: it is the problem's forgery. Standard library only.
"""

from __future__ import annotations

import json
import re
from typing import Any

from judge.bench.exchange.fields import LONGEST_US, BadClaim, need
from judge.values import Audit, Basis, Outcome, Speedup, Verdict
from judge.values.rebuilding import MALFORMED

GIVEN = frozenset(Verdict) - {Verdict.LOST, Verdict.CANCELLED, Verdict.COMPILED_ONLY}
MOST_BYTES, DEPTH = 7 << 20, 40
MOST_PAIRS = 1_000_000
LARGEST_RATIO = 1e9
_CODE = re.compile(r"[a-z][a-z0-9_.]{0,59}")


def outcome_of(body: Any, *, basis: Basis, timed: bool, raced: bool) -> Outcome:
    """The outcome in `body`, of an evaluation whose numbers have this basis, that was asked for times, and for a race
    against the best so far. Raises BadClaim."""
    need(_is_shallow(body, DEPTH), f"a verdict of more than {DEPTH} levels")
    try:
        need(len(json.dumps(body, allow_nan=False)) <= MOST_BYTES, "a verdict that is too long")
        outcome = Outcome.from_json(body)
    except MALFORMED as error:
        raise BadClaim("a verdict that is none") from error
    need(outcome.verdict in GIVEN, "a verdict that only the runner gives")
    need(outcome.reason == "" or _CODE.fullmatch(outcome.reason) is not None, "a reason that is no code")
    rows = outcome.weighted
    need(timed or not (outcome.timings or any(row.timings for row in rows)), "times that nobody asked for")
    races = [outcome.versus_incumbent, *(row.versus_incumbent for row in rows)]
    need(raced or not any(races), "a race that nobody asked for")
    need(outcome.audit is not Audit.PASSED or outcome.verdict is Verdict.PASS, "an audit of what did not pass")
    subjects = [timing.subject for timing in outcome.timings]
    need(len(set(subjects)) == len(subjects), "two times of one subject")
    for timing in (*outcome.timings, *(one for row in rows for one in row.timings)):
        need(timing.basis is basis and timing.high_us <= LONGEST_US, "a time of another basis, or beyond measure")
    for speedup in (outcome.speedup, *races, *(row.speedup for row in rows), *outcome.over_others.values()):
        need(speedup is None or _is_sound(speedup, basis), "a speedup of another basis, or beyond measure")
    return outcome


def _is_sound(speedup: Speedup, basis: Basis) -> bool:
    counted = type(speedup.n) is int and 1 <= speedup.n <= MOST_PAIRS
    return counted and speedup.basis is basis and speedup.high <= LARGEST_RATIO


def _is_shallow(value: Any, levels: int) -> bool:
    """Whether nothing in `value` lies deeper than so many levels."""
    level = [value]
    while level and levels:
        level = [inner for one in level if isinstance(one, dict | list) for inner in _inside(one)]
        levels -= 1
    return not any(isinstance(one, dict | list) for one in level)


def _inside(value: dict[str, Any] | list[Any]) -> list[Any]:
    return list(value.values()) if isinstance(value, dict) else value
