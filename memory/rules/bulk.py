"""One act on every rule of a filter, as one undoable batch."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import F

from adaexplore_site.core.audit import ActionRefused, action_done, action_on
from adaexplore_site.core.models import AuditEntry
from memory.rules.decisions import own_work, reason_words
from memory.rules.desk import rules_locked, snapshot
from memory.rules.models import Rule
from memory.rules.refused_wording import claim_fault

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

VERB = "rules.bulk"
FROM = {  # the states that an act is for
    "approve": (Rule.State.PROPOSED,),
    "reject": (Rule.State.PROPOSED,),
    "defer": (Rule.State.PROPOSED,),
    "retire": (Rule.State.APPROVED,),
    "restore": (Rule.State.REJECTED, Rule.State.RETIRED),
}
MOST = 5000


@dataclass(frozen=True)
class Batch:
    """What a bulk act would do: rules it is for, and those that it leaves out with the reason."""

    ready: tuple[Rule, ...]
    left: tuple[tuple[Rule, str], ...]

    @property
    def seen(self) -> str:
        """Sixteen hexadecimal digits of which rules are ready, each as it is now: what a preview has shown."""
        said = ",".join(f"{rule.pk}:{rule.revision}" for rule in self.ready)
        return hashlib.sha256(said.encode()).hexdigest()[:16]


def batch_of(act: str, rule_ids: Sequence[int]) -> Batch:
    """The rules of a list that the act fits. Raises ActionRefused for an unknown act."""
    if act not in FROM:
        raise ActionRefused(f"There is no act {act!r} on many rules. Choose one of {', '.join(FROM)}.")
    if len(rule_ids) > MOST:
        raise ActionRefused(f"{len(rule_ids)} rules are too many at once; {MOST} fit. Narrow the filter.")
    ready, left = [], []
    for rule in Rule.objects.select_related("current").filter(pk__in=list(rule_ids)).order_by("pk"):
        why = _unfit(act, rule)
        (left.append((rule, why)) if why else ready.append(rule))
    return Batch(tuple(ready), tuple(left))


def _unfit(act: str, rule: Rule) -> str:
    if rule.state not in FROM[act]:
        return f"It is {rule.state}."
    return claim_fault(rule.current.text) if act == "approve" and rule.current else ""


def rules_bulk(
    *,
    act: str,
    rule_ids: Sequence[int],
    expected: int,
    seen: str | None = None,
    user: AbstractBaseUser | None,
    now: datetime,
    reason: str = "",
    days: int = 7,
    key: str | None = None,
) -> AuditEntry:
    """Do `act` to every rule of the list that it fits; `expected` is how many the person was told, `seen` which.

    One row of the audit for each rule and one for the batch, whose undo takes all of them back. Raises ActionRefused:
    other rules than expected, or not as they were seen; no reason where one is needed.
    """
    words = reason_words(reason) if act in ("reject", "retire") else ""
    with rules_locked():
        if done := action_done(key=key, verb=VERB):
            return done
        batch = batch_of(act, rule_ids)
        if len(batch.ready) != expected:
            raise ActionRefused(f"{len(batch.ready)} rules match now, not {expected}. Look at the preview again.")
        if seen is not None and seen != batch.seen:
            raise ActionRefused("Rules of this filter were changed after the preview. Look at it again, then decide.")
        if not batch.ready:
            raise ActionRefused("No rule of this filter can be treated so. Nothing was changed.")
        before = {rule.pk: snapshot(rule) for rule in batch.ready}
        fields = _fields(act, user, now, words, days)
        ids = list(before)
        for start in range(0, len(ids), 500):  # SQLite takes a limited number of values
            chunk = Rule.objects.filter(pk__in=ids[start : start + 500])
            chunk.update(**fields, revision=F("revision") + 1, held_by=None, held_until=None)
        for rule in batch.ready:
            for name, value in fields.items():
                setattr(rule, name, value)
            rule.revision += 1
        acts = AuditEntry.objects.bulk_create([_row(act, rule, before[rule.pk], user) for rule in batch.ready])
        after = {"act": act, "count": len(acts), "left": len(batch.left), "acts": [row.pk for row in acts]}
        return action_on(verb=VERB, on=("rules", 0), user=user, key=key, after={**after, "reason": words})


def _fields(act: str, user: AbstractBaseUser | None, now: datetime, words: str, days: int) -> dict[str, Any]:
    if act == "defer":
        return {"deferred_until": now + timedelta(days=days)}
    if act == "restore":
        fresh = {"state": Rule.State.PROPOSED, "reject_reason": "", "deferred_until": None}
        return {**fresh, "decided_by": None, "decided_at": None}
    state = {"approve": Rule.State.APPROVED, "reject": Rule.State.REJECTED, "retire": Rule.State.RETIRED}[act]
    decided = {"state": state, "recheck": "", "deferred_until": None, "decided_by": user, "decided_at": now}
    return {**decided, "reject_reason": words}


def _row(act: str, rule: Rule, before: dict[str, Any], user: AbstractBaseUser | None) -> AuditEntry:
    more = {"own": own_work(rule, user)} if act == "approve" else {}
    return AuditEntry(
        actor=user,  # type: ignore[misc]
        verb=f"rule.{act}",
        object_type="rule",
        object_id=str(rule.pk),
        before=before,
        after={**snapshot(rule), **more, "bulk": True},
    )
