"""How rules are written: one writer at a time, new rules and versions, sightings and where they go, doubts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import connection, transaction
from django.db.models import F, Min, Q, QuerySet
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext
from packaging.version import InvalidVersion, Version

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.outbox import REVIEWS, webhook_tell
from adaexplore_site.core.text import storable_text
from judge.values import Verdict
from memory.failures.models import Failure
from memory.prompting.lift import Lift, lifts_of, rules_compared
from memory.prompting.models import RuleUse, RunMemory
from memory.prompting.places import triton_in
from memory.prompting.scopes import Scope
from memory.rules.models import IN_USE, Rule, RuleVersion, Sighting
from memory.rules.wording import agreement, claim_fault, wording, words_hash

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

_LOCK = 0x72756C65  # of PostgreSQL's advisory locks: everything that writes rules or moves sightings
NOTIFY_EVERY = timedelta(hours=1)  # webhooks: a learning search proposes many
HOLD_S = 60
NO_EVIDENCE = (Verdict.DISHONEST, Verdict.SUSPECT)  # a kernel that cheats teaches nothing


class RuleChanged(ActionRefused):
    """Somebody changed the rule after the page was made. `rule` is as it is now."""

    def __init__(self, rule: Rule) -> None:
        text = gettext("Rule %(rule)d was changed after this page was loaded. Review it again, then decide.")
        super().__init__(text % {"rule": rule.pk})
        self.rule = rule


def rule_link(rule_id: int) -> tuple[str, str]:
    """Label and address of a rule's page, for a refusal that names the rule."""
    return gettext("Open rule %(rule)d") % {"rule": rule_id}, reverse("rule-detail", args=[rule_id])


def text_taken(rule_id: int, advice: str) -> ActionRefused:
    """Another rule has this text."""
    text = gettext("Rule %(rule)d says the same. %(advice)s") % {"rule": rule_id, "advice": advice}
    return ActionRefused(text, see=rule_link(rule_id))


@contextmanager
def rules_locked() -> Iterator[None]:
    """One transaction, and no other one writes rules meanwhile: two workers never make the same rule twice.

    SQLite has one writer anyway. Keep it short: nothing slow, such as a model's call, inside.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield


def rule_load(rule_id: int) -> Rule:
    """The rule with its current version. Raises ActionRefused when there is none."""
    rule = Rule.objects.select_related("current").filter(pk=rule_id, current__isnull=False).first()
    if rule is None:
        raise ActionRefused(gettext("There is no rule %(rule)d any more.") % {"rule": rule_id})
    return rule


def rule_save(rule: Rule) -> None:
    """Count an action on the rule and end every claim on its card."""
    rule.revision += 1
    rule.held_by, rule.held_until = None, None
    rule.save()


def rule_hold(*, rule_id: int, user: AbstractBaseUser, now: datetime) -> Rule | None:
    """Claim the card for a minute, or say who has it: the rule with its holder. None when there is no such rule.

    A claim is shown to others and prevents no decision. One's own is renewed; those of the person's other cards end.
    """
    free = Q(held_by__isnull=True) | Q(held_by=user.pk) | Q(held_until__lte=now) | Q(held_until__isnull=True)
    if Rule.objects.filter(free, pk=rule_id).update(held_by=user, held_until=now + timedelta(seconds=HOLD_S)):
        Rule.objects.filter(held_by=user.pk).exclude(pk=rule_id).update(held_by=None, held_until=None)
    return Rule.objects.select_related("held_by").filter(pk=rule_id).first()


def claim_checked(text: str) -> str:
    """The text on one line. Raises ActionRefused when it is empty, too long, or quotes what was true of one kernel."""
    clean = " ".join(storable_text(text).split())
    if not clean:
        raise ActionRefused(gettext("The rule has no text. Write in one sentence what to do or what not to do."))
    if wrong := claim_fault(clean):
        raise ActionRefused(wrong)
    return clean


def version_add(rule: Rule, text: str, scope: Scope, user: AbstractBaseUser | None, why: str = "") -> RuleVersion:
    """The next version of the rule, current from now on. Save the rule afterwards."""
    last = rule.versions.order_by("-number").values_list("number", flat=True).first() or 0
    rule.current = RuleVersion.of(rule, last + 1, text, scope, user, why)
    rule.current.save()
    return rule.current


def rule_new(
    *, text: str, scope: Scope, origin: str, user: AbstractBaseUser | None = None, pattern: str = "", why: str = ""
) -> Rule:
    """A proposed rule with its first version, inside `rules_locked`."""
    rule = Rule.objects.create(origin=origin, pattern=pattern, created_by=user)  # type: ignore[misc]
    version_add(rule, text, scope, user, why)
    rule.save(update_fields=["current"])
    body = {"rule": {"id": rule.pk, "text": text, "page": f"/rules/{rule.pk}/"}, "page": "/rules/"}
    webhook_tell(event=REVIEWS, body=body, now=timezone.now(), at_most_every=NOTIFY_EVERY)
    return rule


def rules_with(text: str) -> list[Rule]:
    """Rules whose current text is this, in whatever state, the oldest first; each with its current version."""
    found = Rule.objects.filter(current__words=words_hash(text)).select_related("current", "merged_into")
    return list(found.order_by("pk"))


def text_free(rule: Rule, text: str, scope: Scope) -> None:
    """Refuse where this text would make the rule say what another one says at the same places.

    Rules that say the same as it now are no hindrance, nor are those that were merged into it. Rejected and retired
    ones are: a decision on a text stands, whichever rule has it.
    """
    if taken := _same(rule, text, scope):
        now = {other.pk for other in _same(rule, rule.version.text, rule.version.scope)}
        for other in taken:
            if other.pk not in now:
                raise text_taken(other.successor.pk, gettext("Merge the two, or write what sets them apart."))


def _same(rule: Rule, text: str, scope: Scope) -> list[Rule]:
    """Other rules with this text whose scopes meet this one."""
    found = [other for other in rules_with(text) if rule.pk not in (other.pk, other.successor.pk)]
    return [other for other in found if scope.meets(other.version.scope)]


def rule_join(
    *, failure: Failure, claim: str, pattern: str, origin: str, scope: Scope, user: AbstractBaseUser | None = None
) -> Rule:
    """The failure supports the rule that says the same, else a new proposed one. Returns that rule; idempotent.

    The same: the same text and no other pattern, or `memory.rules.wording.agreement`; and scopes that can meet. A
    merged rule's successor gets the sighting; a rejected or retired rule gets it, too, and stays so. Evidence that
    a person has moved stays where it was put, unless a person (`user`, the author of a new rule) says something new.
    Raises ActionRefused for a kernel that cheated, for a failure that must not teach, and for wording that is no
    rule. Rules are locked until the caller's transaction ends: one that locks the failure's row, too, takes
    `rules_locked` before it.
    """
    clean = claim_checked(claim)
    if failure.verdict in NO_EVIDENCE:
        raise ActionRefused(gettext("A kernel that cheated, or is suspected of it, cannot support a rule."))
    if failure.lesson == Failure.Lesson.UNFIT:
        why = failure.lesson_why or gettext("it was the fault of the machine")
        raise ActionRefused(gettext("This failure cannot support a rule: %(why)s.") % {"why": why})
    with rules_locked():
        moved = Sighting.objects.filter(failure=failure, moved_from__isnull=False).select_related("rule").first()
        if moved is not None and origin != Rule.Origin.PERSON:
            return moved.rule
        rule = _saying(clean, pattern, scope)
        if rule is None:
            rule = rule_new(text=clean, scope=scope, origin=origin, pattern=pattern, user=user)
        Sighting.objects.get_or_create(rule=rule, failure=failure)
        return rule


def _saying(text: str, pattern: str, scope: Scope) -> Rule | None:
    """The rule that says this: equal texts first, old versions included, then the likest sentence, then the oldest."""
    equal = RuleVersion.objects.filter(words=words_hash(text))
    alike = [(version, 1.0) for version in _fitting(equal, pattern, scope)]
    if not alike:
        agrees = _agreeing(text, pattern)
        versions = _fitting(RuleVersion.objects.filter(pk__in=agrees), pattern, scope)
        alike = [(version, agrees[version.pk]) for version in versions]
    if not alike:
        return None

    def rank(pair: tuple[RuleVersion, float]) -> tuple[bool, bool, float, int]:
        version, found = pair
        return version.rule.pattern != pattern, version.scope != scope, -found, version.rule_id

    return min(alike, key=rank)[0].rule.successor


def _agreeing(text: str, pattern: str) -> dict[int, float]:
    """Current versions of rules that say the same in other words, and how surely."""
    current = RuleVersion.objects.filter(rule__current_id=F("pk")).exclude(rule__state=Rule.State.MERGED)
    if pattern:
        current = current.filter(rule__pattern__in=("", pattern))
    own = wording(text)
    rows = current.order_by().values_list("pk", "text")
    return {pk: found for pk, other in rows if (found := agreement(own, wording(other)))}


def _fitting(versions: QuerySet[RuleVersion], pattern: str, scope: Scope) -> list[RuleVersion]:
    """Those that speak of no other pattern and whose scopes meet this one."""
    rows = versions.select_related("rule").order_by("rule_id", "number")
    fit = [version for version in rows if not pattern or version.rule.pattern in ("", pattern)]
    return [version for version in fit if scope.meets(version.scope)]


def sightings_move(source: Rule, target: Rule, failures: Iterable[int] | None = None) -> list[list[int | None]]:
    """Move sightings (all, or of these failures) that `target` has not. Returns [failure, where it was moved from].

    A failure that supports both rules stays linked to both, so that separating them gives each its own again.
    """
    mine = Sighting.objects.filter(rule=source).exclude(failure__sightings__rule=target)
    wanted = None if failures is None else set(failures)
    rows = [row for row in mine if wanted is None or row.failure_id in wanted]
    was = [[row.failure_id, row.moved_from_id] for row in rows]
    for row in rows:
        row.rule, row.moved_from = target, source
    Sighting.objects.bulk_update(rows, ["rule", "moved_from"], batch_size=300)
    return was


def sightings_return(source: Rule, target: Rule, moved: Iterable[list[int | None]]) -> None:
    """Undo a move: what of it is still at `source` goes back to `target`, with the origin it had."""
    was: dict[int | None, Any] = {pair[0]: pair[1] for pair in moved}
    rows = [
        row
        for row in Sighting.objects.filter(rule=source).exclude(failure__sightings__rule=target)
        if row.failure_id in was
    ]
    for row in rows:
        row.rule, row.moved_from_id = target, was[row.failure_id]
    Sighting.objects.bulk_update(rows, ["rule", "moved_from"], batch_size=300)


def rules_recheck() -> list[int]:
    """Ask for another review of active rules that harm, or are bound to a Triton version that has passed.

    Writes why into `Rule.recheck`, and retires nothing. A person's next decision moves `decided_at` on, and only what
    came after it can ask again. Returns the ids of the rules marked now. Idempotent.
    """
    return sorted({*_recheck_harmful(), *_recheck_outdated()})


def _recheck_harmful() -> list[int]:
    """Rules whose sure interval lies below zero, over all uses and over those since the last decision.

    Looked at every ten minutes, all of them: a plain interval would accuse useless rules one after the other.
    """
    rules = {rule.pk: rule for rule in _unmarked().filter(pk__in=RuleUse.objects.values("rule"))}
    among = rules_compared()
    bad = [pk for pk, lift in lifts_of(rules, among=among).items() if lift.harmful]
    decided = {pk: moment for pk in bad if (moment := rules[pk].decided_at) is not None}
    lifts = lifts_of(bad, since=decided, among=among)
    return _mark({pk: harm_text(lift) for pk, lift in lifts.items() if lift.harmful})


def harm_text(lift: Lift) -> str:
    """Why a rule is proposed for retirement, with its figures."""
    assert lift.estimate is not None and lift.low is not None and lift.high is not None
    low, high = sorted((abs(100 * lift.low), abs(100 * lift.high)))
    sure = f"corrected for {lift.among} rules and repeated looks" if lift.among > 1 else "corrected for repeated looks"
    return (
        f"Retire it? Prompts with it gave {abs(100 * lift.estimate):.0f} points fewer valid kernels "
        f"(95 % interval {low:.0f} to {high:.0f}; n={lift.shown} with it, {lift.withheld} without); {sure}."
    )


def _recheck_outdated() -> list[int]:
    """Rules bound to Triton versions that were decided before the newest one was first in use."""
    seen = tritons_seen()
    if len(seen) < 2:
        return []
    newest = max(seen, key=Version)
    first, device = seen[newest]
    why = f"Triton {newest} is in use on {device} since it was decided. Does it still hold there?"
    scoped = _unmarked().filter(current__isnull=False).exclude(current__scope_triton="")
    return _mark({rule.pk: why for rule in scoped if (rule.decided_at or rule.created_at) < first})


def tritons_seen() -> Mapping[str, tuple[datetime, str]]:
    """Triton version -> when a search was first started under it, and on which device."""
    local = RunMemory.objects.filter(elsewhere={}).exclude(toolchain="")
    rows = local.values_list("toolchain", "run__device__name").annotate(first=Min("frozen_at"))
    found: dict[str, tuple[datetime, str]] = {}
    for toolchain, device, first in rows:
        version = triton_in(toolchain)
        try:
            Version(version)
        except InvalidVersion:
            continue
        found[version] = min(found.get(version, (first, device)), (first, device))
    return found


def _unmarked() -> QuerySet[Rule]:
    return Rule.objects.filter(state__in=IN_USE, recheck="").select_related("current")


def _mark(reasons: Mapping[int, str]) -> list[int]:
    """Write each reason unless the rule was marked or decided meanwhile; ids of those written."""
    return [pk for pk, why in reasons.items() if _unmarked().filter(pk=pk).update(recheck=why[:200])]
