"""The pictures of a search: one page, printable, and the values of each as CSV and JSON."""

from __future__ import annotations

import json

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.requests import SiteRequest
from judge.selftest.trust import doubts
from search.pictures.book import Book
from search.pictures.gallery import PICTURES, picture_csv, picture_document, picture_of, pictures_of
from search.records.models import Run


@never_cache
@require_safe
def run_pictures(request: SiteRequest, run_id: int) -> HttpResponse:
    """Every picture with its caption and table. `x` chooses the horizontal axis of the first."""
    book = Book(_run(run_id))
    pictures = pictures_of(book, request.GET.get("x", ""))
    context = {
        "run": book.run,
        "pictures": pictures,
        "missing": [picture for picture in pictures if not picture.drawn],
        "x": request.GET.get("x", ""),
        "doubt": doubts([book.run.device], now=timezone.now()).get(book.run.device_id),
        "printed_at": timezone.now(),
    }
    return render(request, "pictures/run_pictures.html", context)


@never_cache
@require_safe
def picture_file(request: SiteRequest, run_id: int, picture: str, form: str) -> HttpResponse:
    """The values behind one picture, all rows. `form` is csv or json."""
    if picture not in PICTURES or form not in {"csv", "json"}:
        raise Http404("There is no such chart. The charts page links all files.")
    book = Book(_run(run_id))
    found = picture_of(book, picture, request.GET.get("x", ""))
    name = f"adaexplore_run{run_id}_{picture}.{form}"
    if form == "csv":
        return attachment(name, picture_csv(book, found).encode(), "text/csv; charset=utf-8")
    text = json.dumps(picture_document(book, found), indent=1)
    return attachment(name, text.encode(), "application/json")


def _run(run_id: int) -> Run:
    return get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
