"""The page that shows the difference between two versions of a problem."""

from __future__ import annotations

from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.requests import SiteRequest
from judge.problems.kind import problem_at
from search.diffing.cached import diff
from search.diffing.view import DiffView, options_of, parameters


@never_cache
@require_safe
def problem_diff(request: SiteRequest, slug: str) -> HttpResponse:
    """From the older to the newer of two versions: the one of the address and that of the parameter `with`, which is
    the one before where nothing is named."""
    one, named = problem_at(slug), request.GET.get("with", "")[:80]
    versions = list(one.versions)
    before = next((row for row in versions if row.version < one.version), one)
    other = problem_at(named) if named else before
    if other not in versions:
        raise Http404(_("These are not versions of one problem."))
    old, new = sorted((one, other), key=lambda row: row.version)
    options = options_of(request.GET)
    keep = {"with": other.slug, **parameters(options)}
    view = DiffView(
        diff=diff(old.source, new.source, options),
        old=_("version %(version)d") % {"version": old.version},
        new=_("version %(version)d") % {"version": new.version},
        path=reverse("problem-diff", args=[one.slug]),
        keep=keep,
        lasting={"with": other.slug},
    )
    context = {"problem": one, "old": old, "new": new, "view": view}
    return render(request, "compare/problem_diff.html", context)
