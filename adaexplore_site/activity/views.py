"""Activity: who did what, over everything, with Undo; and the same as files."""

from __future__ import annotations

import secrets
from typing import Any

from django.contrib.auth.models import User
from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.cache import add_never_cache_headers
from django.utils.deprecation import MiddlewareMixin
from django.utils.translation import gettext
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.actions.action import Removed
from adaexplore_site.activity.trail import (
    COMMAND,
    Chosen,
    chosen_of,
    removal_of,
    trail_csv,
    trail_json,
    trail_page,
    verbs,
)
from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.requests import SiteRequest

FILES = {
    "csv": (trail_csv, "text/csv; charset=utf-8"),
    "json": (trail_json, "application/json"),
}


@never_cache
@require_safe
def activity(request: SiteRequest) -> HttpResponse:
    """Every act. Query: `who`, `verb`, `object`, `from`, `to`, `before`."""
    return activity_page(request, chosen_of(request.GET.dict()))


def activity_page(request: SiteRequest, chosen: Chosen, *, status: int = 200, refused: str = "") -> HttpResponse:
    """The list as it was asked for."""
    rows, older = trail_page(chosen, request.user)
    removal = removal_of(chosen, request.user)
    people = User.objects.order_by("username").values_list("username", flat=True)[:200]
    here = reverse("activity")  # this page is also shown at other addresses
    context: dict[str, Any] = {
        "rows": rows,
        "chosen": chosen,
        "asked": {**chosen.asked, "since": chosen.asked.get("from", "")},
        "older": here + chosen.query(before=older) if older else "",
        "newest": here + chosen.query(),
        "files": [(form, reverse("activity-file", args=[form]) + chosen.query()) for form in FILES],
        "people": people,
        "command": COMMAND,
        "verbs": verbs(),
        "query": chosen.query(before=chosen.before),
        "refused": refused,
        "removal": removal,
        "key": secrets.token_urlsafe(12),
    }
    return render(request, "activity/activity.html", context, status=status)


class RemovedPages(MiddlewareMixin):
    """The page of an object that was removed is its activity, with who removed it."""

    def process_exception(self, request: SiteRequest, error: Exception) -> HttpResponseBase | None:
        """Lead to the address that the kind of object has for it, or show it there."""
        if not isinstance(error, Removed):
            return None
        kind, entry = error.kind, error.entry
        subject = kind.subject(entry, kind.load([entry]))
        if subject is not None and subject.url not in ("", request.path):
            answer: HttpResponseBase = redirect(subject.url)
        else:
            answer = activity_page(request, chosen_of({"object": f"{kind.noun} {entry.object_id}"}))
        add_never_cache_headers(answer)
        return answer


@never_cache
@require_safe
def activity_file(request: SiteRequest, form: str) -> HttpResponse:
    """The acts of the same filter as csv or json."""
    if form not in FILES:
        raise Http404(gettext("Choose csv or json."))
    chosen = chosen_of(request.GET.dict())
    if chosen.faults:
        return HttpResponse(" ".join(chosen.faults), status=400, content_type="text/plain; charset=utf-8")
    write, kind = FILES[form]
    return attachment(f"activity.{form}", write(chosen), kind)
