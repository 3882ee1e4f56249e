"""Which rules are active where, and how a search freezes them at its start, for replay and every later step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from judge.devices.models import Device
from judge.problems.models import Problem
from memory.prompting.assignment import PromptRule, within_reach
from memory.prompting.choices import OFF, MemoryChoice
from memory.prompting.lift import Lift, lifts_of
from memory.prompting.models import FrozenRule, RunMemory
from memory.prompting.places import place_of, toolchain_now
from memory.prompting.scopes import BadScope, Where
from memory.rules.models import STATES, Rule, Sighting

# Rules that were not learned here: they have no sightings to count, so a person's approval stands for support.
VOUCHED = (Rule.Origin.IMPORT, Rule.Origin.PERSON)


@dataclass(frozen=True)
class Evidence:
    """Whose failures count for a rule, for searches that measure what rules do. None: everybody's.

    `not_on` is a problem whose own failures do not count: else a task knew its answers from an earlier search on it.
    `learned_by` is an adapt run: only rules that its failures support are active.
    """

    not_on: int | None = None
    learned_by: int | None = None


EVERYBODYS = Evidence()


def active_rules(choice: MemoryChoice, where: Where, evidence: Evidence = EVERYBODYS) -> list[PromptRule]:
    """Current versions that a search of this choice uses there, the most useful first. Two queries, plus lifts.

    The state must allow it: approved, and proposed ones with trust "auto" whose text could be approved. Support must
    reach the threshold, but for approved rules of other origin (VOUCHED). Rejected, retired and merged rules are never
    active. The most useful is the one with the highest lift, unknown ones as zero; then support; then age.
    """
    usable = [rule for rule in _counted(choice, evidence) if _usable(rule, choice.threshold) and _holds(rule, where)]
    lifts = lifts_of(rule.pk for rule in usable)
    usable.sort(key=lambda rule: (-(lifts[rule.pk].estimate or 0.0), -rule.support, rule.pk))
    return [rule.version.for_prompt(score=_score(rule, lifts[rule.pk], choice)) for rule in usable]


def _counted(choice: MemoryChoice, evidence: Evidence) -> QuerySet[Any]:
    """Rules in a state that allows use, with `support` out of the evidence that counts."""
    allowed = [state for state, info in STATES.items() if choice.trust in info.trusted]
    rules = Rule.objects.filter(state__in=allowed, current__isnull=False)
    if evidence.learned_by is not None:
        seen = Sighting.objects.filter(failure__run__adapt_task__adapt=evidence.learned_by)
        rules = rules.filter(pk__in=seen.values("rule"))
    counts = ~Q(sightings__failure__problem=evidence.not_on) if evidence.not_on is not None else None
    support = Count("sightings__failure__problem", distinct=True, filter=counts)
    return rules.annotate(support=support).select_related("current__rule").order_by("pk")


def _score(rule: Any, lift: Lift, choice: MemoryChoice) -> dict[str, Any]:
    """Why it has its place, as JSON values."""
    known = {"lift": lift.estimate, "low": lift.low, "high": lift.high} if lift.known else {"lift": None}
    counts = {"shown": lift.shown, "withheld": lift.withheld, "support": rule.support}
    return {**known, **counts} | ({"vouched": True} if rule.support < choice.threshold else {})


def _usable(rule: Any, threshold: int) -> bool:
    """Whether enough problems support a rule, or a person's approval stands for support; a proposed rule was not
    reviewed, so a fault of its text keeps it out of every prompt until a person edits it."""
    vouched = rule.state == Rule.State.APPROVED and rule.origin in VOUCHED
    return (vouched or rule.support >= threshold) and not (rule.state == Rule.State.PROPOSED and rule.fault)


def _holds(rule: Rule, where: Where) -> bool:
    try:
        return rule.version.scope.holds(where)
    except BadScope:  # written by hand into the database: such a rule is used nowhere
        return False


def memory_freeze(
    *,
    run_id: int,
    choice: MemoryChoice,
    problem: Problem,
    device: Device,
    toolchain: str = "",
    evidence: Evidence = EVERYBODYS,
) -> RunMemory:
    """Write how this search uses memory, with the rules that are active now. In the transaction that creates it.

    `evidence` says whose failures count for a rule. Kept are the rules that could ever come into one of its prompts;
    `beyond` counts those that have no chance by the token budget.
    """
    toolchain = toolchain or toolchain_now(problem, device)
    rules = active_rules(choice, place_of(problem, device, toolchain), evidence) if choice.uses else []
    return _write(run_id, choice, toolchain, rules)


def memory_inherit(
    *, run_id: int, source_run_id: int, problem: Problem, device: Device, toolchain: str = ""
) -> RunMemory | None:
    """Give a search that continues another the same rules, though others may be active by now.

    A rule whose scope does not hold on the new device stays behind. None when the first search has no memory.
    """
    first = RunMemory.objects.filter(run_id=source_run_id).first()
    if first is None or first.elsewhere:
        return None
    toolchain = toolchain or toolchain_now(problem, device)
    where = place_of(problem, device, toolchain)
    frozen = first.rules.select_related("version__rule").order_by("place")
    kept = [row.version.for_prompt(score=row.score) for row in frozen if row.version.scope.holds(where)]
    return _write(run_id, choice_of(first), toolchain, kept, beyond=first.beyond)


def memory_recorded(*, run_id: int, choice: MemoryChoice, elsewhere: dict[str, Any], toolchain: str = "") -> RunMemory:
    """Keep what an imported search says of its rules and its `choice`: they become no rules here, and the search
    neither uses nor teaches."""
    return _row(run_id, OFF, toolchain, elsewhere={**elsewhere, "settings": choice.to_json()})


def choice_of(memory: RunMemory) -> MemoryChoice:
    """The settings of a search as they were chosen."""
    return MemoryChoice(**{name: getattr(memory, name) for name in OFF.to_json()})


def _write(
    run_id: int, choice: MemoryChoice, toolchain: str, rules: Sequence[PromptRule], beyond: int = 0
) -> RunMemory:
    costs = [rule.tokens for rule in rules]
    near = within_reach(costs, probability=choice.withhold, budget_tokens=choice.budget_tokens)
    memory = _row(run_id, choice, toolchain, beyond=beyond + len(rules) - near)
    FrozenRule.objects.bulk_create(
        FrozenRule(memory=memory, version_id=rule.version, place=place, score=rule.score)
        for place, rule in enumerate(rules[:near], start=1)
    )
    return memory


def _row(run_id: int, choice: MemoryChoice, toolchain: str, **more: Any) -> RunMemory:
    return RunMemory.objects.create(run_id=run_id, toolchain=toolchain[:120], **choice.to_json(), **more)
