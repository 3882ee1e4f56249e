"""Finding things by name: a plain page, and the same rows as JSON for the palette."""

from __future__ import annotations

from django.http import HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.requests import SiteRequest
from adaexplore_site.palette.commands import commands_of
from adaexplore_site.palette.find import Found, found


@never_cache
@require_safe
def find(request: SiteRequest) -> HttpResponse:
    """What fits `q`, by kind, and every page that has it in its name; without `q` all pages."""
    q = request.GET.get("q", "").strip()[:80]
    places = [
        link for link in commands_of(request).places if q.lower() in f"{link.label} {link.title} {link.detail}".lower()
    ]
    groups: dict[str, list[Found]] = {}
    for row in found(q):
        groups.setdefault(row.group, []).append(row)
    return render(request, "palette/find.html", {"q": q, "groups": list(groups.items()), "pages": places})


@never_cache
@require_safe
def find_names(request: SiteRequest) -> JsonResponse:
    """`rows`: [group, label, detail, address], at most twenty."""
    rows = found(request.GET.get("q", ""))
    return JsonResponse({"rows": [[row.group, row.label, row.detail, row.url] for row in rows]})
