"""Reads of rules at work: what a search has frozen, what stood in a prompt, and every use of one rule."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import Count

from memory.prompting.assignment import Held, dealt, tokens_of
from memory.prompting.models import FrozenRule, RuleUse, RunMemory

USES = 50  # of one rule, on its page


@dataclass(frozen=True)
class Frozen:
    """The rules of one search in the order of use, and how they are dealt. Empty when it uses none."""

    rules: tuple[Held, ...] = ()
    rule_of: Mapping[int, int] = field(default_factory=dict)  # version -> rule
    withhold: float = 0.0
    budget_tokens: int = 0

    def dealt(self, *, seed: int, number: int) -> list[tuple[int, str]]:
        """(version, arm) of each rule at one node."""
        return dealt(self.rules, seed=seed, number=number, probability=self.withhold, budget_tokens=self.budget_tokens)


@dataclass(frozen=True)
class Line:
    """One rule as a prompt has it: its row ids, words and known pattern."""

    rule: int
    version: int
    text: str
    pattern: str


@dataclass(frozen=True)
class UseLine:
    """One rule at one node, for its page. `arm`: shown, withheld or left_out; `rule` is None for one of elsewhere."""

    rule: int | None
    number: int | None  # of the version
    text: str
    arm: str


@dataclass(frozen=True)
class RuleUsed:
    """One use of a rule: where, in which arm, and what came of the node ("" until it is told)."""

    run_id: int
    node: int
    title: str
    version: int
    arm: str
    verdict: str
    reason: str
    told_at: datetime | None


def frozen_of(run_id: int) -> Frozen:
    """What a reservation needs of memory. One query where there are no rules, one where there are."""
    rows = FrozenRule.objects.filter(memory__run_id=run_id, memory__uses=True).order_by("place")
    columns = ("version", "version__rule", "version__words", "version__text")
    found = list(rows.values_list(*columns, "memory__withhold", "memory__budget_tokens"))
    if not found:
        return Frozen()
    return Frozen(
        rules=tuple(Held(version, words or text, tokens_of(text)) for version, _, words, text, _, _ in found),
        rule_of={version: rule for version, rule, *_ in found},
        withhold=found[0][4],
        budget_tokens=found[0][5],
    )


def shown_to(node_id: int) -> tuple[Line, ...]:
    """The rules of one node's prompt in their order. One query."""
    uses = RuleUse.objects.filter(node=node_id, arm=RuleUse.Arm.SHOWN).order_by("pk")
    rows = uses.values_list("rule", "version", "version__text", "rule__pattern")
    return tuple(Line(*row) for row in rows)


def arms_of(run_id: int) -> dict[int, list[tuple[int, str]]]:
    """Node number -> (version, arm) in the order of dealing. One query."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    rows = RuleUse.objects.filter(node__run=run_id).order_by("pk").values_list("node__number", "version", "arm")
    for number, version, arm in rows:
        found[number].append((version, arm))
    return found


def uses_at(node_id: int, run_id: int, number: int) -> list[UseLine]:
    """Rules shown, withheld and left out at one node, those of an imported search as it told them."""
    uses = RuleUse.objects.filter(node=node_id).order_by("pk")
    rows = uses.values_list("rule", "version__number", "version__text", "arm")
    found = [UseLine(*row) for row in rows]
    if found:
        return found
    elsewhere = RunMemory.objects.filter(run=run_id).values_list("elsewhere", flat=True).first() or {}
    texts = {rule["place"]: rule["text"] for rule in elsewhere.get("rules", ())}
    told = elsewhere.get("uses", {}).get(str(number), {})
    return [UseLine(None, None, texts.get(place, ""), arm) for arm, places in told.items() for place in places]


def uses_of(rule_id: int, *, limit: int = USES, arm: str = "") -> list[RuleUsed]:
    """Uses of one rule, the newest first. One query."""
    uses = RuleUse.objects.filter(rule=rule_id).order_by("-pk")
    columns = ("node__run", "node__number", "node__run__problem__title", "version__number", "arm")
    ends = ("node__evaluation__verdict", "node__reason", "node__told_at")
    rows = (uses.filter(arm=arm) if arm else uses).values_list(*columns, *ends)[:limit]
    return [
        RuleUsed(run, node, title, version, given, verdict or "", reason, told)
        for run, node, title, version, given, verdict, reason, told in rows
    ]


def use_counts(rule_ids: Iterable[int]) -> dict[int, dict[str, int]]:
    """Rule -> arm -> prompts, those without a verdict included. One query; rules without uses are empty."""
    ids = list(rule_ids)
    found: dict[int, dict[str, int]] = {pk: {} for pk in ids}
    rows = RuleUse.objects.filter(rule__in=ids).values_list("rule", "arm").annotate(n=Count("pk")).order_by("rule")
    for rule, arm, n in rows:
        found[rule][arm] = n
    return found


def memory_of(run_id: int) -> tuple[RunMemory | None, list[dict[str, Any]]]:
    """How a search uses memory, and its rules in order: rule (None: of elsewhere), number, text, score."""
    memory = RunMemory.objects.filter(run=run_id).first()
    if memory is None:
        return None, []
    if memory.elsewhere:
        told = memory.elsewhere.get("rules", ())
        return memory, [{"rule": None, "number": None, "text": one["text"], "score": one["score"]} for one in told]
    rows = memory.rules.order_by("place").values_list("version__rule", "version__number", "version__text", "score")
    names = ("rule", "number", "text", "score")
    return memory, [dict(zip(names, row, strict=True)) for row in rows]
