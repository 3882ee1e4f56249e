"""The pictures of a search: one page, printable, and the values of each as CSV and JSON."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.utils.translation import override
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.downloads import csv_file, csv_text, json_file, safe
from adaexplore_site.core.requests import SiteRequest
from judge.evaluations.measures import basis_word
from judge.problems.models import flag_codes
from search.pictures.book import Book
from search.pictures.burndown import burn_down_picture
from search.pictures.maps import elites, roofline
from search.pictures.speeds import best_so_far, lineage, samples
from search.pictures.values import Picture
from search.records.models import Run

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

PICTURES: dict[str, tuple[StrOrPromise, Callable[[Book], Picture]]] = {
    "best-so-far": (_("Best so far"), best_so_far),
    "roofline": (_("Roofline"), roofline),
    "samples": (_("Samples of the fastest kernels"), samples),
    "lineage": (_("Lineage of the best kernel"), lineage),
    "elites": (_("Map of elites"), elites),
    "burn-down": (_("Budget burn-down"), burn_down_picture),
}


def picture_of(book: Book, name: str, x: str) -> Picture:
    """The picture of that name; `x` is the horizontal axis of the first. Raises KeyError."""
    title, draw = PICTURES[name]
    return replace(best_so_far(book, x) if draw is best_so_far else draw(book), name=name, title=str(title))


def picture_document(book: Book, picture: Picture) -> dict[str, Any]:
    """The JSON file: what the numbers are worth, then the numbers."""
    run = book.run
    device, problem = run.device, run.problem
    return {
        "run": run.pk,
        "problem": {"slug": problem.slug, "state": problem.state, "flags": flag_codes(problem)},
        "device": {"name": device.name, "title": device.title, "arch": device.arch},
        "basis": basis_word(book.basis) if picture.timed else None,
        **picture.document(),
        "alarms": list(picture.alarms),
    }


def picture_csv(book: Book, picture: Picture) -> str:
    """One line per row, each with the basis and whether the problem is degenerate; unknown is empty."""
    records = picture.records()
    names = list(records[0]) if records else list(picture.table.columns)
    basis = basis_word(book.basis) if picture.timed else ""
    cells = (["" if record[name] is None else safe(record[name]) for name in names] for record in records)
    rows = ([*row, basis, book.run.problem.state] for row in cells)
    return csv_text([[*names, "basis", "problem_state"], *rows])


@never_cache
@require_safe
def run_pictures(request: SiteRequest, run_id: int) -> HttpResponse:
    """Every picture with its caption and table. `x` chooses the horizontal axis of the first."""
    book = Book(_run(run_id))
    pictures = [picture_of(book, name, request.GET.get("x", "")) for name in PICTURES]
    context = {
        "run": book.run,
        "pictures": pictures,
        "missing": [picture for picture in pictures if not picture.drawn],
        "x": request.GET.get("x", ""),
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
    with override("en"):  # files are the same in every language
        found = picture_of(book, picture, request.GET.get("x", ""))
    name = f"adaexplore_run{run_id}_{picture}.{form}"
    if form == "csv":
        return csv_file(name, picture_csv(book, found))
    return json_file(name, picture_document(book, found))


def _run(run_id: int) -> Run:
    return get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
