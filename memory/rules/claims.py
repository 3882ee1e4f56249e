"""Whose card it is: a claim of a minute that tells others, and keeps nobody from deciding."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from django.db.models import Q

from memory.rules.models import Rule

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser

HOLD_S = 60


def rule_hold(*, rule_id: int, user: AbstractBaseUser, now: datetime) -> Rule | None:
    """Claim the card for a minute, or say who has it: the rule with its holder. None when there is no such rule.

    A claim of one's own is renewed; those of the person's other cards end.
    """
    free = Q(held_by__isnull=True) | Q(held_by=user.pk) | Q(held_until__lte=now) | Q(held_until__isnull=True)
    taken = Rule.objects.filter(free, pk=rule_id)
    if taken.update(held_by=user, held_until=now + timedelta(seconds=HOLD_S)):
        Rule.objects.filter(held_by=user.pk).exclude(pk=rule_id).update(held_by=None, held_until=None)
    return Rule.objects.select_related("held_by").filter(pk=rule_id).first()
