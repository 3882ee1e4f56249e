"""Kernels beside each other: `/compare?k=<search>.<node>&k=…`, as a page and as files."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from django.views.decorators.vary import vary_on_headers
from django_htmx.http import replace_url

from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.requests import SiteRequest
from search.compare.asked import asked_of, names_of, without_missing
from search.compare.columns import Column, columns
from search.compare.document import comparison_csv, comparison_json
from search.compare.page import compare_context

FORMS: dict[str, tuple[Callable[[Sequence[Column], Column, Mapping[str, str]], str], str]] = {
    "csv": (comparison_csv, "text/csv; charset=utf-8"),
    "json": (
        lambda found, base, names: json.dumps(comparison_json(found, base, names), indent=1),
        "application/json",
    ),
}


@never_cache
@vary_on_headers("HX-Request")
@require_safe
def compare(request: SiteRequest) -> HttpResponse:
    """Query: `k` (two to four kernels), `base` (one of them), `pane` (see PANES), `name-<k>`, `as` for a file, and
    how the differences are shown (search.diffing.view). What cannot be understood is 422, the rest is shown."""
    query = {name: str(value)[:2_000] for name, value in request.GET.items()}
    for name, value in request.session.get("diff", {}).items():
        if name != "base":  # of a node's difference
            query.setdefault(name, value)
    asked = asked_of([word[:400] for word in request.GET.getlist("k")], query.get("base", ""))
    found = columns(asked.keys)
    asked = without_missing(asked, [column.key for column in found])
    base = next((column for column in found if column.key == asked.base), None)
    form = query.get("as", "")
    if form in FORMS and base is not None:
        write, content_type = FORMS[form]
        names = {str(key): name for key, name in names_of(query, asked.keys).items()}
        return attachment(f"comparison.{form}", write(found, base, names).encode(), content_type)
    context = compare_context(asked, found, query)
    response = render(request, "compare/compare.html", context, status=422 if asked.errors else 200)
    if request.htmx and not request.htmx.history_restore_request:
        replace_url(response, request.get_full_path())
    return response
