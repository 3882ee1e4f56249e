"""What this product adds to the format of AdaExplore under a key of its own: each part as it is written and read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from adaexplore_site.core.text import storable, storable_text
from memory.prompting.assignment import CONTROL, NO_ROOM, TREATMENT
from memory.prompting.choices import MemoryChoice
from memory.prompting.freezing import choice_of
from memory.prompting.models import RunMemory
from memory.prompting.queries import arms_of
from search.records.models import Run
from search.steering.activity import acts_document, acts_read

OWN = "adaexplore_dashboard"  # others pass it by
MAX_RULES = 5000
TEXT_CHARS = 1000
ARMS = (TREATMENT, CONTROL, NO_ROOM)
SCOPE = ("family", "arch", "triton")
_SETTINGS = ("uses", "learns", "trust", "threshold", "budget_tokens", "withhold")


@dataclass(frozen=True)
class RecordedMemory:
    """Settings, toolchain, and `elsewhere`: {"rules": [place, text, version, scope, score], "uses": number -> arm ->
    places, "beyond": rules that no prompt could reach}."""

    choice: MemoryChoice
    toolchain: str
    elsewhere: dict[str, Any]


def memory_read(document: Any, numbers: Mapping[int, int]) -> RecordedMemory | None:
    """From our own export; `numbers` gives the node number of an id in the file. Raises ValueError with a sentence."""
    if document is None:
        return None
    if not isinstance(document, dict):
        raise ValueError("the memory of the search must be an object")
    rules = document.get("rules") or []
    if not isinstance(rules, list) or len(rules) > MAX_RULES:
        raise ValueError(f"a search lists up to {MAX_RULES} rules")
    read = [_rule(place, rule) for place, rule in enumerate(rules, start=1)]
    beyond = document.get("beyond")
    elsewhere = {
        "rules": read,
        "uses": _uses(document.get("in_prompts") or {}, numbers, len(read)),
        "beyond": beyond if isinstance(beyond, int) and not isinstance(beyond, bool) and beyond >= 0 else 0,
    }
    choice = MemoryChoice.from_json({name: document[name] for name in _SETTINGS if name in document})
    return RecordedMemory(choice, storable_text(str(document.get("toolchain") or ""))[:120], elsewhere)


def _rule(place: int, rule: Any) -> dict[str, Any]:
    if not isinstance(rule, dict) or not isinstance(rule.get("text"), str):
        raise ValueError(f"rule {place} has no text")
    scope, score = rule.get("scope"), rule.get("score")
    known = scope if isinstance(scope, dict) else {}
    plain = {
        str(key)[:40]: value for key, value in (score if isinstance(score, dict) else {}).items() if _plain_json(value)
    }
    version = rule.get("version")
    return {
        "place": place,
        "text": storable_text(rule["text"])[:TEXT_CHARS],
        "version": version if isinstance(version, int) and not isinstance(version, bool) else None,
        "scope": {name: storable_text(str(known.get(name) or ""))[:60] for name in SCOPE},
        "score": storable(dict(list(plain.items())[:20])),
    }


def _plain_json(value: Any) -> bool:
    return value is None or isinstance(value, bool | float) or (isinstance(value, int) and abs(value) < 1 << 53)


def _uses(given: Any, numbers: Mapping[int, int], rules: int) -> dict[str, dict[str, list[int]]]:
    if not isinstance(given, dict):
        raise ValueError("its prompts must be listed by node")
    found: dict[str, dict[str, list[int]]] = {}
    for node, arms in given.items():
        known = numbers.get(int(node)) if node.isascii() and node.isdigit() and len(node) < 10 else None
        if not isinstance(arms, dict) or not set(arms) <= set(ARMS):
            raise ValueError(f"the rules of node {node[:20]} must be listed as {', '.join(ARMS)}")
        if known is not None:
            found[str(known)] = {arm: _places(arms[arm], rules) for arm in ARMS if arm in arms}
    return found


def _places(given: Any, rules: int) -> list[int]:
    whole = isinstance(given, list) and all(isinstance(one, int) and not isinstance(one, bool) for one in given)
    if not whole or len(given) > rules or not all(1 <= one <= rules for one in given):
        raise ValueError(f"a prompt names a rule that is none of the {rules}")
    return list(given)


def memory_document(run: Run) -> dict[str, Any] | None:
    """As `memory_read` takes it; None when the search was started without memory."""
    memory = RunMemory.objects.filter(run=run.pk).first()
    if memory is None:
        return None
    if recorded := memory.elsewhere:
        settings = {**recorded["settings"], "toolchain": memory.toolchain}
        return {**settings, "beyond": recorded["beyond"], "rules": recorded["rules"], "in_prompts": recorded["uses"]}
    settings = {**choice_of(memory).to_json(), "toolchain": memory.toolchain}
    rows = list(memory.rules.select_related("version").order_by("place"))
    places = {row.version_id: row.place for row in rows}
    rules = [
        {
            "place": row.place,
            "text": row.version.text,
            "version": row.version.number,
            "scope": {name: getattr(row.version, f"scope_{name}") for name in ("family", "arch", "triton")},
            "score": row.score,
        }
        for row in rows
    ]
    prompts: dict[str, dict[str, list[int]]] = {}
    for number, arms in arms_of(run.pk).items():
        for version, arm in arms:
            prompts.setdefault(str(number), {}).setdefault(arm, []).append(places[version])
    return {**settings, "beyond": memory.beyond, "rules": rules, "in_prompts": prompts}


@dataclass(frozen=True)
class Part:
    """`write` gives it as JSON values. `read` takes them, or None, and the node number of each id in the file; it
    raises ValueError with a sentence."""

    write: Callable[[Run], Any]
    read: Callable[[Any, Mapping[int, int]], Any]


PARTS = {"memory": Part(memory_document, memory_read), "acts": Part(acts_document, acts_read)}
