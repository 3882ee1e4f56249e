"""Until when a person has looked, and how much is new to them: the bell on every page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.contrib.auth.models import User
from django.core.cache import cache
from django.http import HttpRequest
from django.utils import timezone
from django.utils.functional import SimpleLazyObject

from adaexplore_site.core.access import Role, can
from adaexplore_site.notifications.models import NoticeMark
from adaexplore_site.notifications.reads import Notice, notices, notices_count

KEPT_S = 5  # a bell may show what held so long ago
SHOWN = timedelta(days=7)
MOST_SAID = 99


@dataclass(frozen=True)
class Bell:
    """How many notifications are new, `99+` when there are more."""

    count: int

    @property
    def words(self) -> str:
        return f"{MOST_SAID}+" if self.count > MOST_SAID else str(self.count)


def context(request: HttpRequest) -> dict[str, object]:
    """Template context: `bell`, asked of the database only where a template prints it."""
    return {"bell": SimpleLazyObject(lambda: bell_of(request.user, timezone.now()))}  # type: ignore[arg-type]


def bell_of(user: User, now: datetime) -> Bell:
    """As of now, or of a few seconds ago."""
    seen = seen_at(user, now)
    key = f"bell-{user.pk}-{seen.timestamp()}"
    known: Bell | None = cache.get(key)
    if known is None:
        known = Bell(notices_count(seen, now=now, reviewer=can(user, Role.REVIEWER)))
        cache.set(key, known, KEPT_S)
    return known


def notices_of(user: User, since: datetime, now: datetime) -> list[Notice]:
    """What this person may hear of."""
    return notices(since, now=now, reviewer=can(user, Role.REVIEWER))


def seen_at(user: User, now: datetime) -> datetime:
    """Who has never looked has seen what was before the account; nobody is shown more than a week."""
    mark = NoticeMark.objects.filter(user=user).values_list("seen_at", flat=True).first()
    return max(mark or user.date_joined, now - SHOWN)
