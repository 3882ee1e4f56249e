"""Steering by forms: every act is a plain POST with a key; the page that asked shows what came of it."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused, FieldsRefused
from adaexplore_site.requests import SiteRequest
from judge.models import Device
from judge.selectors import judging_devices
from search.activity import MOST, activity_kept, activity_of
from search.models import Run
from search.removal import removed
from search.services.branching import run_branch as branch
from search.steering_form import concurrency_field, limit_fields, param_fields
from search.tasks import send
from search.views.nodes import node_load, node_response
from search.views.runs import refused
from search.views.steering_acts import Fields, chosen, whole


@role_required(Role.OPERATOR)
@require_POST
def run_steer(request: SiteRequest, run_id: int) -> HttpResponse:
    """Do the act named `act`. Scripts get the node's panel again, forms a redirect; a refusal is 409 with why."""
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    fields = {name: str(value) for name, value in request.POST.items()}
    try:
        done, act = chosen(fields.get("act", ""))
        key = fields.get("key", "")[:64] or None
        hops = act(fields, {"run": run, "user": request.user, "key": key})
    except ActionRefused as error:
        return _refused(request, run, fields, error)
    send(hops)
    return _answer(request, run, fields, done)


def _answer(request: SiteRequest, run: Run, fields: Fields, done: str) -> HttpResponse:
    panel = _panel(run, fields)
    if request.htmx and panel is not None:
        return node_response(request, *node_load(run.pk, panel), steer_done=done)
    messages.success(request, done)
    if fields.get("back") == "activity":
        return redirect("run-activity", run_id=run.pk)
    if panel is not None:
        return redirect("node-detail", run_id=run.pk, number=panel)
    return redirect("run-detail", run_id=run.pk)


def _refused(request: SiteRequest, run: Run, fields: Fields, error: ActionRefused) -> HttpResponse:
    """The panel again with what was typed, or the page that says why, the form with what was typed on it."""
    panel, message = _panel(run, fields), str(error)
    if panel is not None:
        run, node = node_load(run.pk, panel)
        return node_response(request, run, node, status=409, steer_refused=message, typed=fields)
    wrong = error.fields if isinstance(error, FieldsRefused) else {}
    rows = AGAIN[fields["act"]](run, fields, wrong) if fields.get("act") in AGAIN and not request.htmx else None
    return refused(request, message, run, act=fields.get("act", ""), fields=rows, errors=wrong)


AGAIN: dict[str, Callable[[Run, Fields, Fields], Any]] = {  # forms of a whole search in which one types
    "params": param_fields,
    "limits": limit_fields,
    "concurrency": concurrency_field,
}


def _panel(run: Run, fields: Fields) -> int | None:
    """The node whose panel asked; None for the search's own forms. The act is done by now: nonsense only leads back."""
    text = fields.get("panel", "")
    known = text.isascii() and text.isdigit() and len(text) < 9 and run.nodes.filter(number=int(text)).exists()
    return int(text) if known else None


@role_required(Role.OPERATOR)
@require_POST
def node_branch(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Start a search of its own with the node's kernel, and go there."""
    run, node = node_load(run_id, number)
    fields = {name: str(value) for name, value in request.POST.items()}
    try:
        new, hops = branch(
            node=node,
            steps=whole(fields.get("steps", ""), "steps"),
            user=request.user,
            proposer=fields.get("proposer", ""),
            device=_device(fields.get("device", "")),
            key=fields.get("key", "")[:64] or None,
        )
    except ActionRefused as error:
        return _refused(request, run, {**fields, "panel": str(number)}, error)
    send(hops)
    messages.success(request, f"This search begins with the kernel of node {number} of search {run.pk}.")
    return redirect("run-detail", run_id=new.pk)


def _device(name: str) -> Device | None:
    if not name:
        return None
    found = next((device for device in judging_devices() if device.name == name), None)
    if found is None:
        raise ActionRefused(f"There is no device {name!r} that judges. Choose one of the list.")
    return found


@require_safe
@never_cache
def run_activity(request: SiteRequest, run_id: int) -> HttpResponse:
    """What people did to a search, with Undo."""
    run = Run.objects.select_related("problem", "device").filter(pk=run_id).first()
    if run is None:
        return _removed(request, run_id)
    rows = activity_of(run)
    context = {"run": run, "rows": rows, "cut": len(rows) == MOST, "key": secrets.token_urlsafe(16)}
    return render(request, "search/run_activity.html", context)


def _removed(request: SiteRequest, run_id: int) -> HttpResponse:
    """Who removed a search, and what had been done to it."""
    act = removed(run_id)
    if act is None:
        raise Http404("There is no such search.")
    return render(request, "search/run_removed.html", {"number": run_id, "act": act, "rows": activity_kept(run_id)})
