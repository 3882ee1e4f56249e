"""Rule files out through the browser."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.requests import SiteRequest
from memory.rules.transfer import export_note, rules_text


@never_cache
@require_safe
def rule_export(request: SiteRequest) -> HttpResponse:
    """Rules as a file, by `state`."""
    state = request.GET.get("state", "living")
    try:
        text = rules_text(state=state)
    except ActionRefused as error:
        context = {"message": str(error), "back": reverse("rule-list")}
        return render(request, "actions/refused.html", context, status=422)
    if request.method == "GET":
        export_note(state=state, count=text.count("\n"), user=request.user)
    headers = {
        "Content-Disposition": f'attachment; filename="rules-{state}.txt"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)
