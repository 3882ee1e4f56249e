"""Activity: who did what, over everything, with Undo; and the same as files."""

from __future__ import annotations

import secrets
from typing import Any
from urllib.parse import parse_qsl

from django.contrib import messages
from django.contrib.auth.models import User
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from adaexplore_site.access import Role, can
from adaexplore_site.audit import ActionRefused
from adaexplore_site.models import Action
from adaexplore_site.requests import SiteRequest, came_from, form_key
from search.acts.files import trail_csv, trail_json
from search.acts.said import Subjects, said
from search.acts.trail import COMMAND, Chosen, chosen_of, trail_page, verbs
from search.acts.undoing import action_undo as undo
from search.tasks import send
from search.views.downloads import attachment

FILES = {
    "csv": (trail_csv, "text/csv; charset=utf-8"),
    "json": (trail_json, "application/json"),
}


@never_cache
@require_safe
def activity(request: SiteRequest) -> HttpResponse:
    """Every act. Query: `who`, `verb`, `object`, `from`, `to`, `before`."""
    return _page(request, chosen_of(_query(request)))


def _query(request: SiteRequest) -> dict[str, str]:
    return {name: str(value) for name, value in request.GET.items()}


def _page(request: SiteRequest, chosen: Chosen, *, status: int = 200, refused: str = "") -> HttpResponse:
    rows, older = trail_page(chosen, request.user)
    people = User.objects.order_by("username").values_list("username", flat=True)[:200]
    context: dict[str, Any] = {
        "rows": rows,
        "chosen": chosen,
        "asked": {**chosen.asked, "since": chosen.asked.get("from", "")},
        "older": chosen.query(before=older) if older else "",
        "newest": chosen.query() or "?",
        "files": [(form, reverse("activity-file", args=[form]) + chosen.query()) for form in FILES],
        "people": people,
        "command": COMMAND,
        "verbs": verbs(),
        "query": chosen.query(before=chosen.before),
        "refused": refused,
        "key": secrets.token_urlsafe(12),
    }
    return render(request, "search/activity.html", context, status=status)


@never_cache
@require_safe
def activity_file(request: SiteRequest, form: str) -> HttpResponse:
    """The acts of the same filter as csv or json."""
    if form not in FILES:
        raise Http404("There are csv and json.")
    chosen = chosen_of(_query(request))
    if chosen.faults:
        return HttpResponse(" ".join(chosen.faults), status=400, content_type="text/plain; charset=utf-8")
    write, kind = FILES[form]
    return attachment(f"activity.{form}", write(chosen), kind)


def action_undo(request: SiteRequest, action_id: int) -> HttpResponse:
    """Take one act back, then show the page that asked, else the list as it was asked for; scripts get a sentence.
    POST only; 409 with why it cannot be."""
    if not any(can(request.user, role) for role in (Role.OPERATOR, Role.REVIEWER, Role.ADMIN)):
        raise PermissionDenied("This needs the role 'operator'. Ask an admin to add it to your account.")
    return _undo(request, action_id)


@require_POST
def _undo(request: SiteRequest, action_id: int) -> HttpResponse:
    action = get_object_or_404(Action, pk=action_id)
    query = request.POST.get("query", "")[:400]
    chosen = chosen_of(dict(_pairs(query)))
    try:
        hops = undo(action=action, user=request.user, key=form_key(request))
    except ActionRefused as error:
        if request.htmx:
            return JsonResponse({"refused": str(error)}, status=409)
        return _page(request, chosen, status=409, refused=str(error))
    send(hops)
    done = said(action, Subjects.of([action])).rstrip(".")
    if request.htmx:
        return JsonResponse({"said": f"Undone: {done}."})
    messages.success(request, f"Undone: {done}.")
    if back := came_from(request):
        return redirect(back)
    return redirect(f"{reverse('activity')}{chosen.query(before=chosen.before)}#act-{action.pk}")


def _pairs(query: str) -> list[tuple[str, str]]:
    return parse_qsl(query.removeprefix("?"))
