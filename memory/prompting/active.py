"""Which rule versions are in force at a place, by state, support and scope, and in which order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.db.models import Count, Q, QuerySet

from judge.devices.models import Device
from judge.problems.models import Problem
from memory.prompting.choices import MemoryChoice
from memory.prompting.lift import Lift, lifts_of
from memory.rules.families import families_of
from memory.rules.models import Rule, RuleVersion, Sighting
from memory.rules.refused_wording import claim_fault
from memory.rules.scopes import BadScope, Scope, Where
from memory.rules.toolchains import toolchain_now, triton_in

# Rules that were not learned here: they have no sightings of ours to count, so a person's approval stands for support.
VOUCHED = (Rule.Origin.IMPORT, Rule.Origin.PERSON)
STATES = {
    "reviewed": (Rule.State.APPROVED,),
    "auto": (Rule.State.APPROVED, Rule.State.PROPOSED),
}


@dataclass(frozen=True)
class Evidence:
    """Whose failures may speak for a rule, for searches that measure what rules do. None: anybody's.

    `not_on` is a problem whose own failures do not count: else a task knew its answers from an earlier search on it.
    `learned_by` is an adapt run: only rules that its failures support are in force.
    """

    not_on: int | None = None
    learned_by: int | None = None


ANYBODYS = Evidence()


@dataclass(frozen=True)
class Forced:
    """A rule in force: its current version, support (distinct problems), lift as known now, and whether a person's
    approval stands in for support."""

    version: RuleVersion
    support: int
    lift: Lift
    vouched: bool = False

    @property
    def order(self) -> tuple[float, int, int]:
        """Most useful first: a known lift, unknown ones as zero; then support; then age."""
        return (-(self.lift.estimate or 0.0), -self.support, self.version.rule_id)

    @property
    def score(self) -> dict[str, Any]:
        """Why it stood where it stood, as JSON values."""
        lift = self.lift
        known = {"lift": lift.estimate, "low": lift.low, "high": lift.high} if lift.known else {"lift": None}
        counts = {"shown": lift.shown, "withheld": lift.withheld}
        return {**known, **counts, "support": self.support} | ({"vouched": True} if self.vouched else {})


def place_of(problem: Problem, device: Device, toolchain: str = "") -> Where:
    """What a prompt for this problem is written for. Without a toolchain the newest known there counts."""
    report = problem.report_for(device.name) or {}
    triton = triton_in(toolchain or toolchain_now(problem, device))
    return Where(families=families_of(report.get("graph")), arch=device.arch, triton=triton)


def rules_in_force(choice: MemoryChoice, where: Where, evidence: Evidence = ANYBODYS) -> list[Forced]:
    """Current versions that a search of this choice uses there, the most useful first. Two queries, plus lifts.

    The state must allow it: approved, and proposed ones with trust "auto" whose wording could be approved. Support must
    reach the threshold, but for approved rules of other origin (VOUCHED). Rejected, retired and merged rules are never
    in force.
    """
    usable = [
        rule
        for rule in _counted(choice, evidence)
        if supported(rule, rule.support, choice.threshold) and _holds(rule, where) and not unsound(rule)
    ]
    lifts = lifts_of(rule.pk for rule in usable)
    return sorted(_forced(usable, lifts, choice.threshold), key=lambda one: one.order)


def _counted(choice: MemoryChoice, evidence: Evidence) -> QuerySet[Any]:
    """Rules in a state that allows use, with `support` out of the evidence that counts."""
    rules = Rule.objects.filter(state__in=STATES[choice.trust], current__isnull=False)
    if evidence.learned_by is not None:
        seen = Sighting.objects.filter(failure__run__adapt_task__adapt=evidence.learned_by)
        rules = rules.filter(pk__in=seen.values("rule"))
    counts = ~Q(sightings__failure__problem=evidence.not_on) if evidence.not_on is not None else None
    support = Count("sightings__failure__problem", distinct=True, filter=counts)
    return rules.annotate(support=support).select_related("current").order_by("pk")


def unsound(rule: Rule) -> str:
    """Why a proposed rule's words keep it out of every prompt until somebody edits it; empty when nothing does.

    People are refused such words when they approve; nobody has looked at a proposed rule.
    """
    return claim_fault(rule.current.text) if rule.state == Rule.State.PROPOSED and rule.current else ""


def supported(rule: Rule, support: int, threshold: int) -> bool:
    """Whether enough problems stand behind a rule, or a person does where none could."""
    return support >= threshold or vouched(rule)


def vouched(rule: Rule) -> bool:
    return rule.state == Rule.State.APPROVED and rule.origin in VOUCHED


def standing(rule: Rule, support: int, threshold: int = MemoryChoice.threshold) -> str:
    """In words, whether searches of this threshold use the rule where its scope holds, else what is missing."""
    if rule.state not in STATES["auto"]:
        return f"not used: {rule.state}"
    if wrong := unsound(rule):
        return f"not used: must be edited first. {wrong}"
    missing = threshold - support
    lacks = f"failures on {missing} more problem{'s' * (missing != 1)}"
    if rule.state == Rule.State.APPROVED:
        return "used" if supported(rule, support, threshold) else f"approved, not used yet: needs {lacks}"
    return "used where proposed rules are trusted" if missing <= 0 else f"not used: needs approval and {lacks}"


def _forced(rules: Iterable[Any], lifts: Any, threshold: int) -> Iterable[Forced]:
    for rule in rules:
        yield Forced(rule.current, rule.support, lifts[rule.pk], vouched=rule.support < threshold)


def _holds(rule: Rule, where: Where) -> bool:
    assert rule.current is not None
    try:
        return scope_of(rule.current).holds(where)
    except BadScope:  # written by hand into the database: a rule nobody can place is used nowhere
        return False


def scope_of(version: RuleVersion) -> Scope:
    """Where a version says it holds. Raises BadScope."""
    return Scope(version.scope_family, version.scope_arch, version.scope_triton)
