"""The page that proposes a rule, and claims on cards."""

from __future__ import annotations

from typing import Any

from django.http import HttpResponseBase, JsonResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from adaexplore_site.actions import registry
from adaexplore_site.actions.views import done, submit
from adaexplore_site.core.access import Role, can, role_required
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest
from memory.rules.claims import rule_hold


@role_required(Role.REVIEWER)
@require_POST
def rule_hold_card(request: SiteRequest, rule_id: int) -> JsonResponse:
    """Claim the card for a minute. The answer names who else has it, and the rule's revision."""
    now = timezone.now()
    rule = rule_hold(rule_id=rule_id, user=request.user, now=now)
    if rule is None:
        return JsonResponse({"gone": True})
    mine = rule.held_by_id == request.user.pk
    return JsonResponse(
        {"holder": "" if mine or not rule.held_by else rule.held_by.get_username(), "revision": rule.revision}
    )


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def rule_new(request: SiteRequest) -> HttpResponseBase:
    """Propose a rule in one's own words. A refusal shows the reason and the words again."""
    fields = request.POST if request.method == "POST" else request.GET
    writer = can(request.user, Role.REVIEWER) or can(request.user, Role.OPERATOR)
    typed = {name: fields.get(name, "")[:1000] for name in ("text", "family", "arch", "triton")}
    context: dict[str, Any] = {"fields": typed, "writer": writer}
    if request.method != "POST":
        return render(request, "review/rule_new.html", context)
    action = registry.action("rule.create")
    try:
        return done(request, action, submit(request, action, {}))
    except ActionRefused as error:
        context |= {"refused": str(error), "see": error.see}
        return render(request, "review/rule_new.html", context, status=error.status)
