"""Pages of the policy laboratory: the stored results, and one of them with its pictures."""

from __future__ import annotations

from django.http import Http404, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.requests import SiteRequest
from search.lab.experiment import PROTOCOL
from search.lab.models import LabResult
from search.lab.pages import space_curves, standings, sweep_plots

MOST = 50


@never_cache
@require_safe
def lab_list(request: SiteRequest) -> HttpResponse:
    """The last results, the newest first, each with what came out."""
    results = list(LabResult.objects.order_by("-id")[:MOST])
    rows = [(result, standings(result.result)) for result in results]
    return render(request, "lab/lab_list.html", {"rows": rows, "most": MOST})


@never_cache
@require_safe
def lab_detail(request: SiteRequest, result_id: int) -> HttpResponse:
    """One result. `workers` chooses which curves are shown, `json` gives the stored document."""
    result = get_object_or_404(LabResult, pk=result_id)
    document = result.result
    if "json" in request.GET:
        return JsonResponse(document, json_dumps_params={"indent": 1})
    plan = document["plan"]
    try:
        workers = int(request.GET.get("workers", plan["workers"][0]))
    except ValueError:
        raise Http404(_("`workers` is a number of steps in flight.")) from None
    if workers not in plan["workers"]:
        raise Http404(_("This result holds nothing for so many steps in flight."))
    context = {
        "result": result,
        "document": document,
        "plan": plan,
        "standings": standings(document),
        "sweeps": sweep_plots(document),
        "workers": workers,
        "spaces": space_curves(document, workers),
        "outdated": result.protocol != PROTOCOL,
    }
    return render(request, "lab/lab_detail.html", context)
