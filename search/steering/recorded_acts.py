"""What a recorded search says of people's acts on it: checked values, trusted in nothing, never done again. Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from adaexplore_site.core.text import storable, storable_text

MAX_ACTS = 20_000
ACT_BYTES = 4096  # of one act as JSON: twice what an event may hold
DEEPEST = 20  # lists and objects inside each other
LATEST = 9998  # year: every zone can tell the time of an act
WHO_CHARS = 150
_VERB = re.compile(r"[a-z]{1,20}(\.[a-z]{1,20}){1,2}")
_WHOLE = frozenset({"number", "parent", "quota", "steps", "total", "act", "action", "seq", "count"})
_NODES = ("number", "parent")
_TEXTS = frozenset({"kind", "text", "verb", "what", "words"})


@dataclass(frozen=True)
class RecordedAct:
    """One act. `told` nodes had their verdict when it was done; `at` is ISO 8601 with its zone; `who` may be empty.

    `before` and `after` are what the audit said; `after` holds the act's place in the log it stood in as `seq`.
    """

    verb: str
    who: str
    at: str
    told: int
    before: dict[str, Any]
    after: dict[str, Any]

    def to_json(self) -> dict[str, Any]:
        """As `acts_read` takes it."""
        return {name: getattr(self, name) for name in ("verb", "who", "at", "told", "before", "after")}


def acts_read(document: Any, numbers: Mapping[int, int]) -> tuple[RecordedAct, ...]:
    """From our own export, oldest first; `numbers` gives the node number of an id in the file. Raises ValueError."""
    if document is None:
        return ()
    if not isinstance(document, list) or len(document) > MAX_ACTS:
        raise ValueError(f"a search lists up to {MAX_ACTS} acts of people")
    acts = tuple(_act(place, act, numbers) for place, act in enumerate(document, start=1))
    return tuple(sorted(acts, key=lambda act: act.told))  # stable: as listed


def _act(place: int, act: Any, numbers: Mapping[int, int]) -> RecordedAct:
    if not isinstance(act, dict) or _deep(act) or len(json.dumps(act)) > ACT_BYTES:
        raise ValueError(f"act {place} is no object of up to {ACT_BYTES} bytes, {DEEPEST} deep")
    verb, told = act.get("verb"), act.get("told")
    if not isinstance(verb, str) or len(verb) > 40 or not _VERB.fullmatch(verb):
        raise ValueError(f"act {place} has no verb such as steer.pin")
    if not isinstance(told, int) or not _whole(told) or told < 0:
        raise ValueError(f"act {place} does not say how many nodes had been told")
    before, after = (_payload(place, act.get(name) or {}) for name in ("before", "after"))
    for name in _NODES:
        if name in after:
            after[name] = numbers.get(after[name])  # in a file with gaps, nodes are counted anew
    known = {name: value for name, value in after.items() if value is not None}
    return RecordedAct(verb, _who(act.get("who")), _at(place, act.get("at")), told, before, known)


def _deep(act: dict[str, Any]) -> bool:
    """Whether it goes deeper than DEEPEST: more than one may recurse into."""
    level: list[Any] = [act]
    for _ in range(DEEPEST):
        level = [inner for one in level for inner in _inside(one)]
    return any(isinstance(one, dict | list) for one in level)


def _inside(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def _payload(place: int, payload: Any) -> dict[str, Any]:
    if not isinstance(payload, dict) or not all(_fits(name, value) for name, value in payload.items()):
        raise ValueError(f"what act {place} changed cannot be read")
    kept = storable(payload)
    assert isinstance(kept, dict)
    return kept


def _fits(name: str, value: Any) -> bool:
    """Whether the words for acts can be made with this value."""
    if name in _WHOLE:
        return _whole(value)
    if name in _TEXTS:
        return isinstance(value, str)
    if name == "boost":
        return _whole(value) or (isinstance(value, float) and math.isfinite(value))
    return isinstance(value, dict) if name == "params" else True


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 1 << 53


def _who(value: Any) -> str:
    return storable_text(value)[:WHO_CHARS] if isinstance(value, str) else ""


def _at(place: int, value: Any) -> str:
    try:
        found = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        found = None
    if found is None or found.tzinfo is None or not 1970 <= found.year <= LATEST:
        raise ValueError(f"act {place} has no time with a zone, such as 2026-01-31T12:00:00+00:00")
    return found.isoformat()
