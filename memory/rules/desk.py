"""Where every act on a rule is done: one writer at a time, the revision checked, the audit row in one transaction."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db import connection, transaction
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.outbox import REVIEWS, webhook_tell
from adaexplore_site.core.text import storable_text
from memory.rules.files import MAX_TEXT
from memory.rules.models import Rule, RuleVersion
from memory.rules.refused_wording import claim_fault
from memory.rules.scopes import Scope
from memory.rules.wording import words_hash

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

_LOCK = 0x72756C65  # of PostgreSQL's advisory locks: everything that writes rules or moves sightings
TOLD_EVERY = timedelta(hours=1)  # webhooks: a learning search proposes many

Extra = dict[str, Any]


class RuleChanged(ActionRefused):
    """Somebody acted on the rule after the page was made. `rule` is as it is now."""

    def __init__(self, rule: Rule) -> None:
        super().__init__(f"Rule {rule.pk} was changed after this page was made. Look at it again, then decide.")
        self.rule = rule


class WordsTaken(ActionRefused):
    """Another rule has these words. `rule_id` is where they stand, for a link."""

    def __init__(self, rule_id: int, advice: str) -> None:
        super().__init__(f"Rule {rule_id} says the same. {advice}")
        self.rule_id = rule_id
        self.see = (f"Open rule {rule_id}", reverse("rule-detail", args=[rule_id]))


@contextmanager
def rules_locked() -> Iterator[None]:
    """One transaction, and nobody else writes rules in it: two workers never make the same rule twice.

    SQLite has one writer anyway. Keep it short: nothing slow, such as a model's call, inside.
    """
    with transaction.atomic():
        if connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SELECT pg_advisory_xact_lock(%s)", [_LOCK])
        yield


def rule_load(rule_id: int) -> Rule:
    """The rule with its words. Raises ActionRefused when there is none."""
    rule = Rule.objects.select_related("current").filter(pk=rule_id).first()
    if rule is None or rule.current is None:
        raise ActionRefused(f"There is no rule {rule_id} any more.")
    return rule


def rule_act(
    *,
    verb: str,
    rule_id: int,
    revision: int,
    user: AbstractBaseUser | None,
    key: str | None,
    act: Callable[[Rule], Extra | None],
) -> AuditEntry | None:
    """Let `act` change the rule's fields, count the act and write it down; what it returns goes into the audit row.

    A key that was used returns the first act. None, and nothing written, where `act` returns None: the rule is so
    already. Raises RuleChanged when `revision` is not the rule's, ActionRefused.
    """
    with rules_locked():
        if done := action_done(key=key, verb=verb):
            return done
        rule = rule_load(rule_id)
        if rule.revision != revision:
            raise RuleChanged(rule)
        before = snapshot(rule)
        extra = act(rule)
        if extra is None:
            return None
        rule_save(rule)
        after = {**snapshot(rule), **extra}
        return action_on(verb=verb, on=("rule", rule.pk), user=user, key=key, before=before, after=after)


def rule_save(rule: Rule) -> None:
    """Count an act on the rule and end every claim on its card."""
    rule.revision += 1
    rule.held_by, rule.held_until = None, None
    rule.save()


def snapshot(rule: Rule) -> dict[str, Any]:
    """What acts change, as JSON: `restored` takes it back."""
    return {
        "state": rule.state,
        "current": rule.current_id,
        "reject_reason": rule.reject_reason,
        "recheck": rule.recheck,
        "deferred_until": rule.deferred_until.isoformat() if rule.deferred_until else None,
        "decided_by": rule.decided_by_id,
        "decided_at": rule.decided_at.isoformat() if rule.decided_at else None,
        "merged_into": rule.merged_into_id,
        "revision": rule.revision,
    }


def restore_snapshot(rule: Rule, old: Mapping[str, Any]) -> None:
    """Put the rule's fields back; the revision goes on counting."""
    rule.state, rule.current_id = old["state"], old["current"]
    rule.reject_reason, rule.recheck = old["reject_reason"], old["recheck"]
    rule.deferred_until = _time(old["deferred_until"])
    rule.decided_by_id, rule.decided_at = old["decided_by"], _time(old["decided_at"])
    rule.merged_into_id = old["merged_into"]


def _time(text: str | None) -> datetime | None:
    return datetime.fromisoformat(text) if text else None


def decide(rule: Rule, state: str, user: AbstractBaseUser | None, now: datetime) -> None:
    """A person has decided: state, who and when. Old doubts are settled with it."""
    rule.state, rule.recheck, rule.deferred_until = state, "", None
    rule.decided_by, rule.decided_at = user, now  # type: ignore[assignment]


def claim_clean(text: str) -> str:
    """The wording on one line. Raises ActionRefused when it is empty or too long."""
    clean = " ".join(storable_text(text).split())
    if not clean:
        raise ActionRefused("The rule has no words. Write in one sentence what to do or what not to do.")
    if len(clean) > MAX_TEXT:
        raise ActionRefused(f"The rule has {len(clean)} characters; {MAX_TEXT} fit. Say it shorter.")
    return clean


def claim_sound(text: str) -> str:
    """The clean wording. Raises ActionRefused when it quotes what was true of one kernel only."""
    clean = claim_clean(text)
    if wrong := claim_fault(clean):
        raise ActionRefused(wrong)
    return clean


def version_add(*, rule: Rule, text: str, scope: Scope, user: AbstractBaseUser | None, why: str = "") -> RuleVersion:
    """The next version of the rule's words and scope, in force from now on. Save the rule afterwards."""
    last = rule.versions.order_by("-number").values_list("number", flat=True).first() or 0
    version = RuleVersion.objects.create(
        rule=rule,
        number=last + 1,
        text=text,
        words=words_hash(text),
        scope_family=scope.family,
        scope_arch=scope.arch,
        scope_triton=scope.triton,
        why=why[:200],
        author=user,  # type: ignore[misc]
    )
    rule.current = version
    return version


def scope_of(version: RuleVersion) -> Scope:
    """The version's scope as a value."""
    return Scope(version.scope_family, version.scope_arch, version.scope_triton)


def rule_new(
    *, text: str, scope: Scope, origin: str, user: AbstractBaseUser | None = None, pattern: str = "", why: str = ""
) -> Rule:
    """A proposed rule with its first version, inside `rules_locked`."""
    rule = Rule.objects.create(origin=origin, pattern=pattern, created_by=user)  # type: ignore[misc]
    version_add(rule=rule, text=text, scope=scope, user=user, why=why)
    rule.save(update_fields=["current"])
    body = {"rule": {"id": rule.pk, "text": text, "page": f"/rules/{rule.pk}/"}, "page": "/rules/"}
    webhook_tell(event=REVIEWS, body=body, now=timezone.now(), at_most_every=TOLD_EVERY)
    return rule
