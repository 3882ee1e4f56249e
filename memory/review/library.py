"""Rows of the library: decided rules with what they have done, and the last act of a person."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count

from adaexplore_site.core.models import AuditEntry
from judge.values import Verdict
from memory.prompting.lift import Lift, lifts_of, rules_compared
from memory.prompting.models import RuleUse
from memory.review.queries import RuleFilter, evidences, likeness_now, rule_ids
from memory.rules.desk import scope_of
from memory.rules.models import Rule, RuleVersion
from memory.rules.scopes import Scope
from memory.rules.undo import UNDO, undone
from memory.rules.value import Evidence

PAGE = 100
SORTS = ("newest", "support", "lift", "used", "hits")
UNDO_FOR = timedelta(minutes=1)  # so long the list offers to undo an act of one's own; its rule and Activity do later


@dataclass(frozen=True)
class Hits:
    """Prompts where a rule was eligible, and those it stood in."""

    shown: int = 0
    eligible: int = 0

    @property
    def rate(self) -> float | None:
        return self.shown / self.eligible if self.eligible else None


@dataclass(frozen=True)
class LibraryRow:
    """One rule as a line."""

    rule: Rule
    version: RuleVersion
    scope: Scope
    evidence: Evidence
    lift: Lift
    hits: Hits


@dataclass(frozen=True)
class LibraryPage:
    """`rows` from `start` of the `total` that a filter leaves."""

    rows: list[LibraryRow]
    total: int
    start: int

    @property
    def next(self) -> int | None:
        end = self.start + len(self.rows)
        return end if end < self.total else None


def library_page(chosen: RuleFilter, *, sort: str, start: int, now: datetime) -> LibraryPage:
    """Rules of a tab in order. The number of queries does not grow with that of rules."""
    ids = rule_ids(chosen, now)
    key = _keys(sort, ids, now)
    ordered = sorted(ids, key=lambda pk: (-key.get(pk, 0.0), -pk))
    wanted = ordered[start : start + PAGE]
    rows = Rule.objects.select_related("current", "decided_by").in_bulk(wanted)
    found, hits = evidences(wanted, now, likeness_now()), hits_of(wanted)
    lifts = lifts_of(wanted, among=rules_compared())
    made = [
        LibraryRow(rows[pk], version, scope_of(version), found[pk], lifts.get(pk, Lift()), hits[pk])
        for pk in wanted
        if (version := rows[pk].current) is not None
    ]
    return LibraryPage(made, len(ids), start)


def _keys(sort: str, ids: Sequence[int], now: datetime) -> dict[int, float]:
    """What the rules are sorted by, the greatest first; nothing for the newest."""
    if sort == "support":
        return {pk: float(evidence.support) for pk, evidence in evidences(ids, now, likeness_now()).items()}
    if sort == "lift":
        return {pk: -2.0 if lift.estimate is None else lift.estimate for pk, lift in lifts_of(ids).items()}
    if sort in ("used", "hits"):
        hits = hits_of(ids)
        return {pk: float(row.shown) if sort == "used" else row.rate or 0.0 for pk, row in hits.items()}
    return {}


def hits_of(ids: Sequence[int]) -> Mapping[int, Hits]:
    """How often each rule could have stood in a prompt, and did. One query."""
    uses = RuleUse.objects.order_by().values_list("rule", "arm").annotate(n=Count("pk"))
    rows = uses.filter(rule__in=ids) if len(ids) < 500 else uses
    arms: dict[int, dict[str, int]] = defaultdict(dict)
    for pk, arm, n in rows:
        arms[pk][arm] = n
    return {pk: Hits(arms[pk].get(RuleUse.Arm.SHOWN, 0), sum(arms[pk].values())) for pk in ids}


@dataclass(frozen=True)
class Use:
    """A prompt that the rule was eligible for. `valid` is None while its candidate has no verdict."""

    run: int
    number: int
    arm: str
    version: int
    valid: bool | None


def uses_of(rule_id: int, most: int = 20) -> list[Use]:
    """The last prompts that a rule was eligible for, the newest first. One query."""
    rows = RuleUse.objects.filter(rule=rule_id).order_by("-pk")[:most]
    columns = ("node__run_id", "node__number", "arm", "version__number", "node__state", "node__evaluation__verdict")
    return [
        Use(run, number, arm, version, verdict == Verdict.PASS if state == "told" else None)
        for run, number, arm, version, state, verdict in rows.values_list(*columns)
    ]


def last_act(user: Any, now: datetime) -> AuditEntry | None:
    """The person's newest act on rules that is not undone, for a minute: what `u` takes back."""
    mine = AuditEntry.objects.filter(actor=user, object_type__in=("rule", "rules"), created_at__gt=now - UNDO_FOR)
    mine = mine.exclude(verb__in=(UNDO, "rules.export", "rule.take_in", "rule.give_back", "rule.split_off"))
    recent = mine.filter(after__bulk__isnull=True).order_by("-pk")[:20]
    return next((act for act in recent if not undone(act)), None)
