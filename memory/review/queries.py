"""What pages and services read of rules: support, the filter, the order of the review queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from urllib.parse import urlencode

from django.db.models import Count, F, Max, Q, QuerySet, Sum

from memory.rules.likeness import Likeness, Said, likeness_of
from memory.rules.models import Rule, RuleVersion, Sighting
from memory.rules.refused_wording import claim_fault
from memory.rules.scopes import Scope
from memory.rules.value import Evidence, review_value

IN_REVIEW = Q(state=Rule.State.PROPOSED) | (Q(state=Rule.State.APPROVED) & ~Q(recheck=""))
TABS = {
    "queue": IN_REVIEW,
    "library": Q(state=Rule.State.APPROVED),
    "closed": Q(state__in=(Rule.State.REJECTED, Rule.State.RETIRED, Rule.State.MERGED)),
}
NAMES = ("tab", "q", "origin", "scope", "least", "flagged", "adapt")  # fields of a filter
SCOPES = ("any", "family", "arch", "triton")


def supports(rule_ids: Iterable[int]) -> Mapping[int, int]:
    """Distinct problems among the sightings of each rule; 0 for a rule without any. One query."""
    wanted = list(rule_ids)
    found = _sightings(wanted).values_list("rule").annotate(problems=Count("failure__problem", distinct=True))
    return {**dict.fromkeys(wanted, 0), **dict(found)}


def open_reviews(now: datetime) -> int:
    """Rules that wait for a decision: the number in the navigation. One query on an index."""
    return Rule.objects.filter(IN_REVIEW, _due(now)).count()


def review_queue_rows(now: datetime) -> QuerySet[Rule]:
    """Those rules, in no order."""
    return Rule.objects.filter(IN_REVIEW, _due(now))


def reviews_waiting(now: datetime) -> tuple[int, datetime | None]:
    """The same number, and when the newest of them was proposed."""
    found = review_queue_rows(now).aggregate(count=Count("pk"), newest=Max("created_at"))
    return found["count"], found["newest"]


@dataclass(frozen=True)
class RuleFilter:
    """What a list of rules is narrowed to. Unknown values narrow nothing."""

    tab: str = "queue"
    q: str = ""
    origin: str = ""
    scope: str = ""  # which part of the scope is bound, or "any"
    least: int = 0  # support
    flagged: bool = False  # wording that must be edited first
    adapt: int = 0  # number of the adapt run whose failures support them

    @property
    def narrows(self) -> bool:
        return bool(self.q or self.origin or self.scope or self.least or self.flagged or self.adapt)


def query_of(chosen: RuleFilter) -> str:
    """The filter as a query string; empty parts are left out."""
    values = {name: getattr(chosen, name) for name in NAMES}
    values["flagged"] = "1" if chosen.flagged else ""
    values["tab"] = "" if chosen.tab == "queue" else chosen.tab
    return urlencode({name: value for name, value in values.items() if value})


def rules_filtered(chosen: RuleFilter, now: datetime) -> QuerySet[Rule]:
    """Rules of a tab by words, origin, scope and adapt run; deferred ones wait. `least` and `flagged` come later."""
    rules = Rule.objects.filter(TABS.get(chosen.tab, IN_REVIEW), current__isnull=False)
    if chosen.tab == "queue":
        rules = rules.filter(_due(now))
    for word in chosen.q.split():
        number = int(word.removeprefix("#")) if word.removeprefix("#").isdecimal() and len(word) < 10 else None
        rules = rules.filter(Q(current__text__icontains=word) | Q(pattern__icontains=word) | Q(pk=number))
    if chosen.origin in Rule.Origin.values:
        rules = rules.filter(origin=chosen.origin)
    if chosen.adapt:
        rules = rules.filter(
            pk__in=Sighting.objects.filter(failure__run__adapt_task__adapt=chosen.adapt).values("rule")
        )
    parts = {"family": "current__scope_family", "arch": "current__scope_arch", "triton": "current__scope_triton"}
    if chosen.scope == "any":
        rules = rules.filter(**dict.fromkeys(parts.values(), ""))
    elif chosen.scope in parts:
        rules = rules.exclude(**{parts[chosen.scope]: ""})
    return rules


def rule_ids(chosen: RuleFilter, now: datetime) -> list[int]:
    """Numbers of all rules that a filter leaves, the whole of it applied."""
    rows = list(rules_filtered(chosen, now).values_list("pk", "current__text"))
    if chosen.flagged:
        rows = [row for row in rows if _flag(row[1])]
    if chosen.least:
        support = supports(pk for pk, _ in rows)
        rows = [row for row in rows if support[row[0]] >= chosen.least]
    return [pk for pk, _ in rows]


def evidences(rule_ids: Iterable[int], now: datetime, index: Likeness) -> dict[int, Evidence]:
    """What stands behind each rule. Two queries, however many rules."""
    wanted = list(rule_ids)
    torn = index.torn
    rows = (
        _sightings(wanted)
        .values_list("rule")
        .annotate(
            problems=Count("failure__problem", distinct=True),
            seen=Count("pk"),
            last=Max("failure__told_at"),
            cost=Sum("failure__cost_s"),
            priced=Count("failure__cost_s"),
        )
    )
    seen = {row[0]: row[1:] for row in rows}
    rules = Rule.objects.filter(pk__in=wanted) if len(wanted) < 500 else Rule.objects.all()
    facts = {pk: rest for pk, *rest in rules.order_by().values_list("pk", "imported_count", "recheck")}
    found = {}
    for pk in wanted:
        problems, sightings, last, cost, priced = seen.get(pk, (0, 0, None, None, 0))
        found[pk] = Evidence(
            support=problems,
            sightings=sightings,
            age_s=(now - last).total_seconds() if last else None,
            cost_s=cost or 0.0,
            priced=priced,
            imported=float(facts[pk][0] or 0.0) if pk in facts else 0.0,
            torn=pk in torn,
            recheck=pk in facts and bool(facts[pk][1]),
        )
    return found


def review_queue(chosen: RuleFilter, now: datetime, user_id: int | None = None) -> list[int]:
    """Rules of a filter, the most worth a review first (`review_value`); cards that others hold now come last."""
    wanted = rule_ids(chosen, now)
    found = evidences(wanted, now, likeness_now())
    held = Rule.objects.filter(held_until__gt=now, held_by__isnull=False).exclude(held_by=user_id)
    taken = set(held.values_list("pk", flat=True))
    return sorted(wanted, key=lambda pk: (pk in taken, -review_value(found[pk]), pk))


def likeness_now() -> Likeness:
    """The index of the current words of all rules that were not merged. One query; built anew when words change."""
    rows = RuleVersion.objects.filter(rule__current_id=F("pk")).exclude(rule__state=Rule.State.MERGED)
    columns = rows.order_by("rule_id").values_list("rule_id", "text", "scope_family", "scope_arch", "scope_triton")
    return likeness_of(tuple(Said(pk, text, _scope(*parts)) for pk, text, *parts in columns))


@lru_cache(maxsize=4096)
def _scope(family: str, arch: str, triton: str) -> Scope:
    return Scope(family, arch, triton)


@lru_cache(maxsize=16_384)
def _flag(text: str) -> str:
    return claim_fault(text)


def _due(now: datetime) -> Q:
    return Q(deferred_until__isnull=True) | Q(deferred_until__lte=now)


def _sightings(wanted: list[int]) -> QuerySet[Sighting]:
    """Sightings of these rules, unordered. A long list is not sent: databases limit how many values they take."""
    rows = Sighting.objects.order_by()
    return rows.filter(rule__in=wanted) if len(wanted) < 500 else rows
