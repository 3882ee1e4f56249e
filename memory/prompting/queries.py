"""What is read and written of rules in prompts: what a search has frozen, and the arms of each prompt."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from memory.prompting.assignment import FrozenRules, PromptRule
from memory.prompting.models import FrozenRule, RuleUse, RunMemory


def frozen_of(run_id: int) -> FrozenRules:
    """What a reservation needs of memory. One query."""
    rows = FrozenRule.objects.filter(memory__run=run_id, memory__uses=True).order_by("place")
    found = list(rows.select_related("memory", "version__rule").defer("memory__elsewhere"))
    if not found:
        return FrozenRules()
    memory = found[0].memory
    return FrozenRules(tuple(_for_prompt(row) for row in found), memory.withhold, memory.budget_tokens)


def _for_prompt(row: FrozenRule) -> PromptRule:
    return row.version.for_prompt(score=row.score)


def memory_of(run_id: int) -> tuple[RunMemory | None, tuple[PromptRule, ...]]:
    """How a search uses memory, and its rules in order, those of an imported search as it recorded them."""
    memory = RunMemory.objects.filter(run=run_id).first()
    if memory is None:
        return None, ()
    if memory.elsewhere:
        recorded = memory.elsewhere.get("rules", ())
        return memory, tuple(PromptRule(one["text"], score=one["score"]) for one in recorded)
    rows = memory.rules.select_related("version__rule").order_by("place")
    return memory, tuple(_for_prompt(row) for row in rows)


def shown_to(node_id: int) -> tuple[PromptRule, ...]:
    """The rules of one node's prompt in their order. One query."""
    return _used(node_id, arm=RuleUse.Arm.TREATMENT)


def uses_at(node_id: int, run_id: int, number: int) -> tuple[PromptRule, ...]:
    """Rules of every arm at one node, those of an imported search as it recorded them."""
    if found := _used(node_id):
        return found
    elsewhere = RunMemory.objects.filter(run=run_id).values_list("elsewhere", flat=True).first() or {}
    texts = {rule["place"]: rule["text"] for rule in elsewhere.get("rules", ())}
    arms = elsewhere.get("uses", {}).get(str(number), {})
    return tuple(PromptRule(texts.get(place, ""), arm=arm) for arm, places in arms.items() for place in places)


def _used(node_id: int, **only: str) -> tuple[PromptRule, ...]:
    rows = RuleUse.objects.filter(node=node_id, **only).select_related("version__rule").order_by("pk")
    return tuple(row.version.for_prompt(arm=row.arm) for row in rows)


def arms_of(run_id: int) -> dict[int, list[tuple[int, str]]]:
    """Node number -> (version, arm) in the order of assignment. One query."""
    found: dict[int, list[tuple[int, str]]] = defaultdict(list)
    rows = RuleUse.objects.filter(node__run=run_id).order_by("pk").values_list("node__number", "version", "arm")
    for number, version, arm in rows:
        found[number].append((version, arm))
    return found


def uses_record(*, frozen: FrozenRules, seed: int, nodes: Iterable[tuple[int, int]]) -> None:
    """Assign the frozen rules to new nodes, given as (row id, number), in the transaction that reserves them."""
    RuleUse.objects.bulk_create(
        RuleUse(node_id=pk, rule_id=rule.rule, version_id=rule.version, arm=arm)
        for pk, number in nodes
        for rule, arm in frozen.arms(seed=seed, number=number)
    )
