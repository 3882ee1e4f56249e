"""What another policy would do now, or would have done at a step: as JSON, as a page, as a piece of one."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest
from search.algorithm.params import POLICY_NAMES, SETTABLE
from search.records.models import Run
from search.replay.what_if import WhatIf, what_if_document
from search.replay.what_if import what_if as ask


@never_cache
@require_safe
def counterfactual(request: SiteRequest, run_id: int) -> HttpResponse:
    """JSON. Query: `at` (a step; without it the next one), and any search parameter, e.g. `policy=greedy&w=0.1`.

    422 with {"error"} when something asked for does not exist.
    """
    run = get_object_or_404(Run, pk=run_id)
    try:
        return JsonResponse(what_if_document(run, _asked(request, run)))
    except ActionRefused as error:
        return JsonResponse({"error": str(error)}, status=422)


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def what_if(request: SiteRequest, run_id: int) -> HttpResponse:
    """The same for people: a form, the decision, the arms."""
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    context = {"run": run, "policies": POLICY_NAMES, "at": request.GET.get("at", "")}
    status = 200
    try:
        context["asked"] = _asked(request, run)
    except ActionRefused as error:
        context["error"], status = str(error), 422
    template = "replay/_what_if.html" if request.htmx else "replay/what_if.html"
    return render(request, template, context, status=status)


def _asked(request: SiteRequest, run: Run) -> WhatIf:
    at = request.GET.get("at", "").strip()
    if at and not (at.isascii() and at.isdigit() and len(at) < 9 and int(at)):
        raise ActionRefused(_("`at` is the number of a step from 1 on, not %(at)r.") % {"at": at[:40]})
    unknown = sorted(set(request.GET) - {*SETTABLE, "at", "tab"})
    if unknown:
        raise ActionRefused(
            _("There is no parameter %(names)s. Known: at, %(known)s.")
            % {"names": ", ".join(unknown), "known": ", ".join(SETTABLE)}
        )
    changes = {name: text for name in SETTABLE if (text := request.GET.get(name, "").strip())}
    return ask(run, changes, int(at) if at else None)
