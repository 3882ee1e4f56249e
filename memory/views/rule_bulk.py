"""One act on all rules of a filter: first a preview, then the act."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from adaexplore_site.access import Role, require
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest
from memory.rule_selectors import RuleFilter, rule_ids
from memory.services.rules_bulk import batch_of, rules_bulk
from memory.views.rule_acts import reason_of, whole
from memory.views.rules import filter_of, list_context, query_of, say_on_list

EXAMPLES = 10
TYPED = 50  # above so many, the person types the number


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rule_bulk(request: SiteRequest) -> HttpResponse:
    """GET: how many rules of the filter an act fits, and which not. POST: do it, when they are still the same."""
    given = request.POST if request.method == "POST" else request.GET
    chosen, act = filter_of(request, given), given.get("act", "")[:10]
    if request.method != "POST":
        return _preview(request, chosen, act)
    require(request.user, Role.REVIEWER)
    try:
        expected = whole(given.get("typed") or given.get("expected", ""), "rules")
        if expected > TYPED and not given.get("typed"):
            raise ActionRefused(f"Type {expected} to confirm: the act changes more than {TYPED} rules.")
        action = rules_bulk(
            act=act,
            rule_ids=rule_ids(chosen, timezone.now()),
            expected=expected,
            seen=given.get("seen", ""),
            user=request.user,
            now=timezone.now(),
            reason=reason_of(given),
            key=given.get("key", "")[:64] or None,
        )
    except ActionRefused as error:
        return _preview(request, chosen, act, str(error))
    say_on_list(request, action)
    query = query_of(chosen)
    return redirect(reverse("rule-list") + (f"?{query}" if query else ""))


def _preview(request: SiteRequest, chosen: RuleFilter, act: str, refused: str = "") -> HttpResponse:
    context = {**list_context(request, chosen), "act": act, "refused": refused}
    try:
        batch = batch_of(act, rule_ids(chosen, timezone.now())) if act else None
    except ActionRefused as error:
        batch, context["refused"] = None, refused or str(error)
    if batch is not None:
        context |= {"batch": batch, "examples": batch.ready[:EXAMPLES], "left": batch.left[:EXAMPLES]}
        context |= {"typed": len(batch.ready) > TYPED, "needs_reason": act in ("reject", "retire")}
    return render(request, "memory/rule_bulk.html", context, status=409 if refused else 200)
