"""One action on all rules of a filter: first a preview, then the action."""

from __future__ import annotations

from django.http import HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from adaexplore_site.actions import registry
from adaexplore_site.actions.views import done, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest
from memory.review.actions import TYPED
from memory.review.queries import RuleFilter, rule_ids
from memory.review.views import filter_of, list_context
from memory.rules.bulk import batch_of

EXAMPLES = 10


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rule_bulk(request: SiteRequest) -> HttpResponseBase:
    """GET: how many rules of the filter an action fits, and which not. POST: do it, when they are still the same."""
    given = request.POST if request.method == "POST" else request.GET
    chosen, act = filter_of(request, given), given.get("act", "")[:10]
    if request.method != "POST":
        return _preview(request, chosen, act)
    action = registry.action("rules.bulk")
    try:
        return done(request, action, submit(request, action, {}))
    except ActionRefused as error:
        return _preview(request, chosen, act, error)


def _preview(request: SiteRequest, chosen: RuleFilter, act: str, error: ActionRefused | None = None) -> HttpResponse:
    context = {**list_context(request, chosen), "act": act, "refused": str(error or "")}
    try:
        batch = batch_of(act, rule_ids(chosen, timezone.now())) if act else None
    except ActionRefused as unknown:
        batch, context["refused"] = None, str(error or unknown)
    if batch is not None:
        context |= {"batch": batch, "examples": batch.ready[:EXAMPLES], "left": batch.left[:EXAMPLES]}
        context |= {"typed": len(batch.ready) > TYPED, "needs_reason": act in ("reject", "retire")}
    return render(request, "review/rule_bulk.html", context, status=200 if error is None else error.status)
