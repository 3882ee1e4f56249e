"""Notifications: the page, how many are new, and the mark until which a person has seen them."""

from __future__ import annotations

from datetime import datetime

from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from adaexplore_site.core.access import Role, can
from adaexplore_site.core.requests import SiteRequest
from adaexplore_site.notifications.services import (
    SHOWN,
    bell_of,
    happened_count,
    holding,
    notice_mark_set,
    notices_of,
    seen_at,
)

MOST = 200


@never_cache
@require_safe
def notice_list(request: SiteRequest) -> HttpResponse:
    """What holds now, then what happened within a week; new is what came after this person's mark."""
    now = timezone.now()
    seen = seen_at(request.user, now)
    found = [one for one in notices_of(request.user, now - SHOWN, now) if not one.holds]
    waiting = holding(now, reviewer=can(request.user, Role.REVIEWER))
    context = {
        "waiting": [(one, one.at > seen) for one in sorted(waiting, key=lambda one: one.at, reverse=True)],
        "happened": [(one, one.at > seen) for one in found[:MOST]],
        "hidden": max(happened_count(now - SHOWN) - len(found[:MOST]), 0),
        "new": any(one.at > seen for one in (*waiting, *found)),
        "until": now.isoformat(),
        "days": SHOWN.days,
    }
    return render(request, "notifications/notice_list.html", context)


@never_cache
@require_safe
def notice_count(request: SiteRequest) -> JsonResponse:
    """For the bell of an open page: `count`, its `words`, and the newest in words."""
    now = timezone.now()
    bell = bell_of(request.user, now)
    new = notices_of(request.user, seen_at(request.user, now), now) if bell.count else []
    return JsonResponse({"count": bell.count, "words": bell.words, "newest": new[0].said if new else ""})


@require_POST
def notice_seen(request: SiteRequest) -> HttpResponse:
    """Move this person's mark to when the page was made (`until`): what came since stays new. Nonsense is now."""
    now = timezone.now()
    try:
        until = datetime.fromisoformat(request.POST.get("until", "")[:40])
    except ValueError:
        until = now
    if timezone.is_naive(until):
        until = now
    notice_mark_set(user=request.user, until=min(until, now))
    return redirect("notice-list")
