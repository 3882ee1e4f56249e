"""What is read of rules: evidence, filters, the review queue, batches, the library, and what was done to them."""

from __future__ import annotations

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, Self
from urllib.parse import urlencode

from django.db.models import Count, F, Max, Q, QuerySet, Sum
from django.urls import reverse
from django.utils.translation import gettext

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import CHANGED, UNDO, UNDONE, Kind, Standing, Subject
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.values import Verdict
from memory.prompting.lift import Lift, lifts_of, rules_compared
from memory.prompting.models import RuleUse
from memory.prompting.scopes import Scope
from memory.rules.models import STATES, Rule, RuleVersion, Sighting
from memory.rules.services import rules_locked
from memory.rules.wording import Likeness, Piece, Said, changes, claim_fault, likeness_of

IN_REVIEW = Q(state=Rule.State.PROPOSED) | (Q(state=Rule.State.APPROVED) & ~Q(recheck=""))
TABS = {  # lists of rules by name
    tab: Q(state__in=[state for state, info in STATES.items() if info.tab == tab])
    for tab in dict.fromkeys(info.tab for info in STATES.values())
} | {"queue": IN_REVIEW}
BULK = ("approve", "reject", "defer", "retire", "restore")  # decisions that are possible on many rules at once
MOST = 5000
TYPED = 50  # above so many, the person types the number
MANY = 500  # databases limit how many values a query takes: above so many, all rows are read
PAGE = 100
SORTS = ("newest", "support", "lift", "used", "hits")
UNDO_FOR = timedelta(minutes=1)  # so long lists offer to undo one's last action; the rule and Activity do later, too
HALF_LIFE_DAYS = 7.0


@dataclass(frozen=True)
class Evidence:
    """What supports a rule. `age_s`: since its last failure, None without one; `cost_s`: spent on the `priced` ones of
    them, as the cost of the others is not known."""

    support: int = 0
    count: int = 0
    age_s: float | None = None
    cost_s: float = 0.0
    priced: int = 0
    imported: float = 0.0
    contradicted: bool = False  # another rule says the opposite
    recheck: bool = False

    @property
    def unpriced(self) -> int:
        return self.count - self.priced


def review_value(evidence: Evidence) -> float:
    """Expected value of a review, without a unit: only the order counts.

        log2(1 + support) + 2^(-age / 7 days) + log2(1 + cost / 60 s) / 2 + log2(1 + imported) / 10
            + 1 if another rule says the opposite + 1 if it is to be checked again

    Support counts by doublings: the second problem says more than the tenth. A failure of today is likelier to
    come back tomorrow. Cost is what the rule could save. An imported count is evidence of others.
    """
    recent = 0.0 if evidence.age_s is None else 2.0 ** (-max(evidence.age_s, 0.0) / (HALF_LIFE_DAYS * 86_400))
    return (
        math.log2(1 + evidence.support)
        + recent
        + math.log2(1 + max(evidence.cost_s, 0.0) / 60) / 2
        + math.log2(1 + max(evidence.imported, 0.0)) / 10
        + float(evidence.contradicted)
        + float(evidence.recheck)
    )


def evidences(rule_ids: Sequence[int], now: datetime, index: Likeness) -> dict[int, Evidence]:
    """What supports each rule. One query, however many rules."""
    rules = Rule.objects.filter(pk__in=rule_ids) if len(rule_ids) < MANY else Rule.objects.all()
    rows = rules.order_by().annotate(
        problems=Count("sightings__failure__problem", distinct=True),
        seen=Count("sightings"),
        last=Max("sightings__failure__told_at"),
        cost=Sum("sightings__failure__cost_s"),
        priced=Count("sightings__failure__cost_s"),
    )
    columns = rows.values_list("pk", "problems", "seen", "last", "cost", "priced", "imported_count", "recheck")
    found = {pk: Evidence() for pk in rule_ids}
    for pk, problems, seen, last, cost, priced, imported, recheck in columns:
        age_s = (now - last).total_seconds() if last else None
        doubts = pk in index.contradicted, bool(recheck)
        found[pk] = Evidence(problems, seen, age_s, cost or 0.0, priced, float(imported or 0.0), *doubts)
    return found


def likeness_now() -> Likeness:
    """The index of the current texts of all rules that were not merged. One query; built again when a text changes."""
    rows = RuleVersion.objects.filter(rule__current_id=F("pk")).exclude(rule__state=Rule.State.MERGED)
    columns = rows.order_by("rule_id").values_list("rule_id", "text", "scope_family", "scope_arch", "scope_triton")
    return likeness_of(tuple(Said(pk, text, _scope(*parts)) for pk, text, *parts in columns))


_scope = lru_cache(maxsize=4096)(Scope)
_fault = lru_cache(maxsize=16_384)(claim_fault)


@dataclass(frozen=True)
class RuleFilter:
    """What a list of rules is narrowed to. Unknown values narrow nothing."""

    tab: str = "queue"
    q: str = ""
    origin: str = ""
    scope: str = ""  # which part of the scope is bound, or "any"
    least: int = 0  # support
    flagged: bool = False  # text that must be edited first
    adapt: int = 0  # number of the adapt run whose failures support them

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Self:
        """The filter of a query string, or of a form's fields. Nonsense narrows nothing."""
        return cls(
            tab=tab if (tab := given.get("tab", "")) in TABS else "queue",
            q=given.get("q", "").strip()[:80],
            origin=given.get("origin", "")[:10],
            scope=given.get("scope", "")[:10],
            least=whole(given.get("least")),
            flagged=given.get("flagged") in ("1", True),
            adapt=whole(given.get("adapt")),
        )

    @property
    def narrows(self) -> bool:
        return bool(self.q or self.origin or self.scope or self.least or self.flagged or self.adapt)


def whole(value: Any, most_digits: int = 6) -> int:
    """A number of a query string; 0 for anything else."""
    text = str(value or "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= most_digits else 0


def query_of(chosen: RuleFilter) -> str:
    """The filter as a query string; empty parts are left out."""
    values = {**asdict(chosen), "flagged": "1" if chosen.flagged else "", "tab": chosen.tab.replace("queue", "")}
    return urlencode({name: value for name, value in values.items() if value})


def review_rows(now: datetime) -> QuerySet[Rule]:
    """Rules that wait for a decision, in no order."""
    return Rule.objects.filter(IN_REVIEW, _due(now))


def _due(now: datetime) -> Q:
    return Q(deferred_until__isnull=True) | Q(deferred_until__lte=now)


def rules_filtered(chosen: RuleFilter, now: datetime) -> QuerySet[Rule]:
    """Rules of a filter, deferred ones left out of the queue. `flagged` is applied by `rule_ids`."""
    rules = Rule.objects.filter(TABS.get(chosen.tab, IN_REVIEW), current__isnull=False)
    if chosen.tab == "queue":
        rules = rules.filter(_due(now))
    for word in chosen.q.split():
        number = int(word.removeprefix("#")) if word.removeprefix("#").isdecimal() and len(word) < 10 else None
        rules = rules.filter(Q(current__text__icontains=word) | Q(pattern__icontains=word) | Q(pk=number))
    if chosen.origin in Rule.Origin.values:
        rules = rules.filter(origin=chosen.origin)
    if chosen.adapt:
        seen = Sighting.objects.filter(failure__run__adapt_task__adapt=chosen.adapt)
        rules = rules.filter(pk__in=seen.values("rule"))
    parts = {"family": "current__scope_family", "arch": "current__scope_arch", "triton": "current__scope_triton"}
    if chosen.scope == "any":
        rules = rules.filter(**dict.fromkeys(parts.values(), ""))
    elif chosen.scope in parts:
        rules = rules.exclude(**{parts[chosen.scope]: ""})
    if chosen.least:
        support = Count("sightings__failure__problem", distinct=True)
        rules = rules.annotate(support=support).filter(support__gte=chosen.least)
    return rules


def rule_ids(chosen: RuleFilter, now: datetime) -> list[int]:
    """Numbers of all rules that a filter leaves, the whole of it applied."""
    rows = rules_filtered(chosen, now).values_list("pk", "current__text")
    return [pk for pk, text in rows if not chosen.flagged or _fault(text)]


def review_queue(chosen: RuleFilter, now: datetime, user_id: int | None = None) -> list[int]:
    """Rules of a filter by `review_value`, the highest first; cards that others hold now come last."""
    wanted = rule_ids(chosen, now)
    found = evidences(wanted, now, likeness_now())
    held = Rule.objects.filter(held_until__gt=now, held_by__isnull=False).exclude(held_by=user_id)
    taken = set(held.values_list("pk", flat=True))
    return sorted(wanted, key=lambda pk: (pk in taken, -review_value(found[pk]), pk))


@dataclass(frozen=True)
class Batch:
    """What a decision on many rules would do: rules that it fits, and those that it leaves out with the reason."""

    ready: tuple[Rule, ...]
    left: tuple[tuple[Rule, str], ...]

    @property
    def seen(self) -> str:
        """Sixteen hexadecimal digits of which rules are ready, each as it is now: what a preview has shown."""
        said = ",".join(f"{rule.pk}:{rule.revision}" for rule in self.ready)
        return hashlib.sha256(said.encode()).hexdigest()[:16]


def bulk_in(tab: str) -> list[str]:
    """The decisions on many rules that some rule of this list allows."""
    return [act for act in BULK if any(info.tab == tab and act in info.allows for info in STATES.values())]


def batch_of(act: str, rule_ids: Sequence[int]) -> Batch:
    """The rules of a list that the decision fits. Raises ActionRefused for an unknown one."""
    if act not in BULK:
        text = gettext("%(act)r is not possible on many rules. Choose one of %(choices)s.")
        raise ActionRefused(text % {"act": act, "choices": ", ".join(BULK)})
    if len(rule_ids) > MOST:
        text = gettext("%(number)d rules are too many at once; the limit is %(most)d. Narrow the filter.")
        raise ActionRefused(text % {"number": len(rule_ids), "most": MOST})
    ready, left = [], []
    for rule in Rule.objects.select_related("current").filter(pk__in=rule_ids, current__isnull=False).order_by("pk"):
        if act not in rule.info.allows:
            left.append((rule, gettext("It is %(state)s.") % {"state": rule.info.label}))
        elif act == "approve" and rule.fault:
            left.append((rule, rule.fault))
        else:
            ready.append(rule)
    return Batch(tuple(ready), tuple(left))


@dataclass(frozen=True)
class Hits:
    """Prompts where a rule was eligible, and those that held it."""

    shown: int = 0
    eligible: int = 0

    @property
    def rate(self) -> float:
        return self.shown / self.eligible if self.eligible else 0.0


def hits_of(ids: Sequence[int]) -> Mapping[int, Hits]:
    """How often each rule could have been in a prompt, and was. One query."""
    uses = RuleUse.objects.filter(rule__in=ids) if len(ids) < MANY else RuleUse.objects.all()
    arms: dict[int, dict[str, int]] = defaultdict(dict)
    for pk, arm, n in uses.order_by().values_list("rule", "arm").annotate(n=Count("pk")):
        arms[pk][arm] = n
    return {pk: Hits(arms[pk].get(RuleUse.Arm.TREATMENT, 0), sum(arms[pk].values())) for pk in ids}


@dataclass
class RuleRow:
    """One rule with what supports it and what it has done."""

    rule: Rule
    version: RuleVersion
    scope: Scope
    evidence: Evidence
    lift: Lift
    hits: Hits


def rule_rows(ids: Sequence[int], now: datetime, index: Likeness | None = None) -> list[RuleRow]:
    """These rules in the order given. The number of queries does not grow with that of rules."""
    people = ("current__author", "held_by", "created_by", "decided_by")
    rules = Rule.objects.select_related("current", *people).filter(current__isnull=False).in_bulk(ids)
    found, hits, lifts = (
        evidences(ids, now, index or likeness_now()),
        hits_of(ids),
        lifts_of(ids, among=rules_compared()),
    )
    versions = [(pk, rules[pk], rules[pk].version) for pk in ids if pk in rules]
    return [RuleRow(rule, row, row.scope, found[pk], lifts.get(pk, Lift()), hits[pk]) for pk, rule, row in versions]


@dataclass(frozen=True)
class LibraryPage:
    """`rows` from `start` of the `total` that a filter leaves."""

    rows: list[RuleRow]
    total: int
    start: int

    @property
    def next(self) -> int | None:
        end = self.start + len(self.rows)
        return end if end < self.total else None


def library_page(chosen: RuleFilter, *, sort: str, start: int, now: datetime) -> LibraryPage:
    """Rules of a tab in order. The number of queries does not grow with that of rules."""
    ids, index = rule_ids(chosen, now), likeness_now()
    key = _keys(sort, ids, now, index)
    ordered = sorted(ids, key=lambda pk: (-key.get(pk, 0.0), -pk))
    return LibraryPage(rule_rows(ordered[start : start + PAGE], now, index), len(ids), start)


def _keys(sort: str, ids: Sequence[int], now: datetime, index: Likeness) -> dict[int, float]:
    """What the rules are sorted by, the greatest first; nothing for the newest."""
    if sort == "support":
        return {pk: float(evidence.support) for pk, evidence in evidences(ids, now, index).items()}
    if sort == "lift":
        return {pk: -2.0 if lift.estimate is None else lift.estimate for pk, lift in lifts_of(ids).items()}
    if sort in ("used", "hits"):
        return {pk: float(row.shown) if sort == "used" else row.rate for pk, row in hits_of(ids).items()}
    return {}


def uses_of(rule_id: int, most: int = 20) -> list[dict[str, Any]]:
    """The last prompts that a rule was eligible for, the newest first. One query.

    Each has `run`, `number`, `arm`, `version_number`, and `valid`: None while its candidate has no verdict.
    """
    names = {"run": "node__run_id", "number": "node__number", "version_number": "version__number"}
    names |= {"state": "node__state", "verdict": "node__evaluation__verdict"}
    rows = RuleUse.objects.filter(rule=rule_id).order_by("-pk")
    found: QuerySet[RuleUse, Any] = rows.values("arm", **{name: F(path) for name, path in names.items()})
    return [
        {**row, "valid": row["verdict"] == Verdict.PASS if row["state"] == "told" else None} for row in found[:most]
    ]


def last_action(user: Any, now: datetime) -> AuditEntry | None:
    """The person's newest action on rules that is not undone, for a minute: what `u` undoes."""
    mine = AuditEntry.objects.filter(actor=user, object_type__in=("rule", "rules"), created_at__gt=now - UNDO_FOR)
    mine = mine.exclude(verb__in=(UNDO_VERB, "rules.export", "rule.take_in", "rule.give_back", "rule.split_off"))
    recent = mine.filter(after__bulk__isnull=True).order_by("-pk")[:20]
    return next((entry for entry in recent if not undone(entry)), None)


UNDO_VERB = "rule.undo"
MOST_ENTRIES = 100  # of the history of one rule


@dataclass(frozen=True)
class RuleEntries:
    """The rules that are still there, which entries were undone, and the revisions that each rule is as it was at."""

    rules: Mapping[int, Rule]
    undone: frozenset[int]
    stands: Mapping[int, frozenset[int]]

    def standing(self, entry: AuditEntry) -> Standing:
        """Whether it can be undone: it was not yet, and the rule is as the entry left it."""
        if entry.pk in self.undone:
            return UNDONE
        if entry.object_type == "rules":
            return UNDO
        if int(entry.object_id) not in self.rules:
            return Standing(why_not=gettext("the rule no longer exists"))
        return UNDO if entry.after.get("revision") in self.stands[int(entry.object_id)] else CHANGED


class RuleKind(Kind):
    """Rules as the activity log shows them."""

    name = "rule"

    def load(self, entries: Sequence[AuditEntry]) -> RuleEntries:
        ids = {entry.object_id for entry in entries}
        rules = Rule.objects.in_bulk({int(pk) for pk in ids}) if self.name == "rule" else {}
        undos = AuditEntry.objects.filter(verb=UNDO_VERB, object_type=self.name, object_id__in=ids).order_by()
        undone = frozenset(after["undoes"] for after in undos.values_list("after", flat=True))
        return RuleEntries(rules, undone, stands_at(rules.values()))

    def subject(self, entry: AuditEntry, loaded: RuleEntries) -> Subject | None:
        if entry.object_type == "rules":
            return Subject("rules", gettext("several rules"), reverse("rule-list"))
        pk = int(entry.object_id)
        return (
            Subject("rule", gettext("rule %(rule)d") % {"rule": pk}, reverse("rule-detail", args=[pk]))
            if pk in loaded.rules
            else None
        )

    def lock(self, target: Rule) -> Rule:
        """The rule's row. Services lock all rules before a row, so this does, too: otherwise two could wait for each
        other."""
        with rules_locked():
            return Rule.objects.select_for_update(of=("self",)).get(pk=target.pk)

    def version(self, target: Rule) -> int:
        return target.revision

    def now(self, target: Rule) -> dict[str, Any]:
        text = target.current.text if target.current is not None else None
        return {"revision": target.revision, "state": target.state, "text": text}


class RulesKind(RuleKind):
    """Many rules at once: batches and files."""

    name = "rules"


RULE, RULES = RuleKind(), RulesKind()


def stands_at(rules: Iterable[Rule]) -> dict[int, frozenset[int]]:
    """Revisions that each rule is as it was at: its own, then those that undos in a row have brought it back to."""
    wanted = {rule.pk: rule.revision for rule in rules}
    ids = [str(pk) for pk in wanted]
    undos = AuditEntry.objects.filter(verb=UNDO_VERB, object_type="rule", object_id__in=ids).order_by()
    back: dict[int, dict[int, int]] = {pk: {} for pk in wanted}
    for pk, after in undos.values_list("object_id", "after"):
        if "back_to" in after:
            back[int(pk)][after["revision"]] = after["back_to"]
    found: dict[int, frozenset[int]] = {}
    for rule, revision in wanted.items():
        row = [revision]
        while row[-1] in back[rule]:
            row.append(back[rule][row[-1]])
        found[rule] = frozenset(row)
    return found


def undone(entry: AuditEntry) -> bool:
    """Whether an undo of this entry is in the audit log."""
    mine = AuditEntry.objects.filter(verb=UNDO_VERB, object_type=entry.object_type, object_id=entry.object_id)
    return mine.filter(after__undoes=entry.pk).exists()


def said(entry: AuditEntry) -> str:
    """What was done, as a sentence with its rule: "Rule 12 was approved."."""
    what = str(registry.reader(entry).describe(entry, None)).rstrip(".")
    if entry.object_type == "rules" or entry.verb == UNDO_VERB:
        return f"{what}."
    facts = {"rule": entry.object_id, "what": what[:1].lower() + what[1:]}
    return gettext("Rule %(rule)s was %(what)s.") % facts


@dataclass(frozen=True)
class VersionRow:
    """One version, with what it changed of the version before."""

    version: RuleVersion
    scope: Scope
    change: tuple[Piece, ...]
    scope_changed: bool
    current: bool


def versions_of(rule: Rule) -> list[VersionRow]:
    """Every version of a rule, the newest first."""
    rows: list[VersionRow] = []
    before: RuleVersion | None = None
    for version in rule.versions.select_related("author").order_by("number"):
        change = changes(before.text, version.text) if before and before.text != version.text else ()
        other = before is not None and before.scope != version.scope
        rows.append(VersionRow(version, version.scope, change, other, version.pk == rule.current_id))
        before = version
    return rows[::-1]


@dataclass(frozen=True)
class HistoryRow:
    """One action on a rule, and whether it can be undone or was."""

    entry: AuditEntry
    text: str
    standing: Standing
    undone: bool

    @property
    def actor(self) -> str:
        return self.entry.actor.get_username() if self.entry.actor else gettext("system")


def history_of(rule: Rule, most: int = MOST_ENTRIES) -> list[HistoryRow]:
    """What people did to a rule, the newest first."""
    rows = AuditEntry.objects.filter(object_type="rule", object_id=str(rule.pk)).select_related("actor")
    entries = list(rows.order_by("-pk")[:most])
    loaded = RULE.load(entries)
    return [
        HistoryRow(row, said(row), registry.reader(row).standing(row, loaded), row.pk in loaded.undone)
        for row in entries
    ]
