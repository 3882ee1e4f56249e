"""Rule files in and out through the browser."""

from __future__ import annotations

from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from adaexplore_site.access import Role, role_required
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest, form_key
from memory.rules.files import MAX_BYTES
from memory.services.rules_files import export_note, rules_import, rules_text
from memory.views.rules import say_on_list


@role_required(Role.REVIEWER)
@require_POST
def rule_import(request: SiteRequest) -> HttpResponse:
    """Import a rule file. One that is not taken is 422 with every bad line."""
    sent: UploadedFile[bytes] | None = request.FILES.get("file")
    try:
        if sent is None:
            raise ActionRefused("No file came with the form. Choose a text file with one rule||count a line.")
        if sent.size is not None and sent.size > MAX_BYTES:
            raise ActionRefused(f"The file is larger than {MAX_BYTES >> 20} MiB. Split it.")
        act = rules_import(
            data=sent.read(),
            name=sent.name or "upload",
            user=request.user,
            key=form_key(request),
        )
    except ActionRefused as error:
        context = {"message": str(error), "back_to": reverse("rule-list")}
        return render(request, "memory/rule_refused.html", context, status=422)
    say_on_list(request, act)
    return redirect("rule-list")


@never_cache
@require_safe
def rule_export(request: SiteRequest) -> HttpResponse:
    """Rules as a file, by `state`."""
    state = request.GET.get("state", "living")
    try:
        text = rules_text(state=state)
    except ActionRefused as error:
        context = {"message": str(error), "back_to": reverse("rule-list")}
        return render(request, "memory/rule_refused.html", context, status=422)
    if request.method == "GET":
        export_note(state=state, count=text.count("\n"), user=request.user)
    headers = {
        "Content-Disposition": f'attachment; filename="rules-{state}.txt"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return HttpResponse(text, content_type="text/plain; charset=utf-8", headers=headers)
