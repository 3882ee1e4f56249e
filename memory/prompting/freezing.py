"""Fixes at a search's start what it uses of memory, so that replay and every later step see the same rules."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from judge.devices.models import Device
from judge.problems.models import Problem
from memory.prompting.active import ANYBODYS, Evidence, place_of, rules_in_force, scope_of
from memory.prompting.assignment import tokens_of, within_reach
from memory.prompting.choices import OFF, MemoryChoice
from memory.prompting.models import FrozenRule, RunMemory
from memory.rules.models import RuleVersion
from memory.rules.toolchains import toolchain_now


def memory_freeze(
    *,
    run_id: int,
    choice: MemoryChoice,
    problem: Problem,
    device: Device,
    toolchain: str = "",
    evidence: Evidence = ANYBODYS,
) -> RunMemory:
    """Write how this search uses memory, with the rule versions in force now. In the transaction that creates it.

    `evidence` says whose failures may speak for a rule. Kept are the rules that could ever come into one of its
    prompts; `beyond` counts those that have no chance by the token budget.
    """
    toolchain = toolchain or toolchain_now(problem, device)
    where = place_of(problem, device, toolchain)
    forced = rules_in_force(choice, where, evidence) if choice.uses else []
    return _write(run_id, choice, toolchain, [(one.version, one.score) for one in forced])


def memory_inherit(
    *, run_id: int, source_run_id: int, problem: Problem, device: Device, toolchain: str = ""
) -> RunMemory | None:
    """Give a search that continues another the same rules, though newer ones may be in force by now.

    A rule whose scope does not hold on the new device stays behind. None when the first search has no memory.
    """
    first = RunMemory.objects.filter(run_id=source_run_id).first()
    if first is None or first.elsewhere:
        return None
    toolchain = toolchain or toolchain_now(problem, device)
    where = place_of(problem, device, toolchain)
    frozen = first.rules.select_related("version").order_by("place")
    kept = [(row.version, row.score) for row in frozen if scope_of(row.version).holds(where)]
    return _write(run_id, choice_of(first), toolchain, kept, beyond=first.beyond)


def memory_recorded(*, run_id: int, choice: MemoryChoice, elsewhere: dict[str, Any], toolchain: str = "") -> RunMemory:
    """Keep what an imported search says of its rules and its `choice`, told as of elsewhere: they become no rules of
    ours, and here the search neither uses nor teaches."""
    return _row(run_id, OFF, toolchain, elsewhere={**elsewhere, "settings": choice.to_json()})


def choice_of(memory: RunMemory) -> MemoryChoice:
    """The settings of a search as they were chosen."""
    names = ("uses", "learns", "trust", "threshold", "budget_tokens", "withhold")
    return MemoryChoice(**{name: getattr(memory, name) for name in names})


def _write(
    run_id: int,
    choice: MemoryChoice,
    toolchain: str,
    rules: Sequence[tuple[RuleVersion, dict[str, Any]]],
    beyond: int = 0,
) -> RunMemory:
    costs = [tokens_of(version.text) for version, _ in rules]
    near = within_reach(costs, probability=choice.withhold, budget_tokens=choice.budget_tokens)
    memory = _row(run_id, choice, toolchain, beyond=beyond + len(rules) - near)
    FrozenRule.objects.bulk_create(
        FrozenRule(memory=memory, version=version, place=place, score=score)
        for place, (version, score) in enumerate(rules[:near], start=1)
    )
    return memory


def _row(run_id: int, choice: MemoryChoice, toolchain: str, **more: Any) -> RunMemory:
    return RunMemory.objects.create(run_id=run_id, toolchain=toolchain[:120], **choice.to_json(), **more)
