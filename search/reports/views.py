"""The report over a set of searches, as a page and as files."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from contextlib import nullcontext
from urllib.parse import urlencode

from django.http import HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext, override
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.requests import SiteRequest
from search.reports.build import report_of, report_runs
from search.reports.page import report_context, report_csv, report_html, report_json
from search.reports.values import BEST, MEAN, RULES, Report

FORMS: dict[str, tuple[Callable[[Report], str], str]] = {
    "html": (report_html, "text/html; charset=utf-8"),
    "csv": (report_csv, "text/csv; charset=utf-8"),
    "json": (lambda report: json.dumps(report_json(report), indent=1), "application/json"),
}
MOST = 2000


@never_cache
@require_safe
def report(request: SiteRequest) -> HttpResponse:
    """Query: `runs` (numbers, or all when empty), `rule`, `unassisted`, and `as` for a file."""
    text = request.GET.get("runs", "").strip()[:MOST]
    rule = request.GET.get("rule", BEST)
    chosen = {"runs": text, "rule": rule if rule in RULES else BEST, "unassisted": bool(request.GET.get("unassisted"))}
    ids, error = _ids(text)
    runs = report_runs(ids=ids)
    missing = sorted(set(ids or ()) - {run.pk for run in runs})
    if missing:
        error = _("There is no search %(numbers)s. It is left out.") % {"numbers": ", ".join(map(str, missing[:10]))}
    form = request.GET.get("as", "")
    with override("en") if form in FORMS else nullcontext():  # a file reads the same for everybody
        title = ngettext("%(count)d search", "%(count)d searches", len(runs)) % {"count": len(runs)}
    made = report_of(runs, title=title, rule=str(chosen["rule"]), unassisted=bool(chosen["unassisted"]))
    if form in FORMS:
        return report_file(made, form, "report")
    context = report_context(made) | {
        "chosen": chosen,
        "error": error,
        "rules": ((BEST, _("Best search per problem")), (MEAN, _("Mean of searches"))),
        "files": [(name.upper(), f"{reverse('report')}?{_query(chosen)}as={name}") for name in FORMS],
    }
    return render(request, "reports/report.html", context, status=422 if error else 200)


def report_file(made: Report, form: str, stem: str) -> HttpResponse:
    """The report as a download."""
    write, content_type = FORMS[form]
    return attachment(f"{stem}.{form}", write(made).encode(), content_type)


def _ids(text: str) -> tuple[list[int] | None, str]:
    """(ids or None for all, what is wrong)."""
    words = [word for word in re.split(r"[\s,]+", text) if word]
    if not words:
        return None, ""
    ids = [int(word) for word in words if word.isascii() and word.isdigit() and len(word) < 16]
    odd = next((word for word in words if not (word.isascii() and word.isdigit() and len(word) < 16)), None)
    refusal = _("%(text)r is not the number of a search. Enter numbers, such as 3, 5, 8.")
    return ids, "" if odd is None else refusal % {"text": odd[:40]}


def _query(chosen: dict[str, object]) -> str:
    kept = {name: 1 if value is True else value for name, value in chosen.items() if value}
    return f"{urlencode(kept)}&" if kept else ""
