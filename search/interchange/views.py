"""Downloads, the import form and the gallery of imported searches. Every download is in the audit log."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from django.http import Http404, HttpResponse, HttpResponseBase
from django.shortcuts import get_object_or_404, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from adaexplore_site.actions import registry
from adaexplore_site.actions.action import Action
from adaexplore_site.actions.views import done, submit
from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.env import MAX_UPLOAD_BYTES
from adaexplore_site.core.models import AuditEntry
from adaexplore_site.core.requests import SiteRequest
from search.interchange.actions import play_address
from search.interchange.exports import OF_NODE, NothingToExport, nodes_to_export
from search.interchange.imports import recorded_files
from search.interchange.packed import OF_RUN
from search.records.kinds import action_record
from search.records.models import Run
from search.records.queries import run_summaries

if TYPE_CHECKING:
    from django.contrib.auth.models import AbstractBaseUser


def export_record(*, run: Run, what: str, user: AbstractBaseUser | None, node: int | None = None) -> AuditEntry:
    """Write that `what` of a run, or of one of its nodes, was exported. A second export is a second row."""
    after = {"what": what} | ({} if node is None else {"node": node})
    return action_record(verb="run.export", run=run, user=user, key=None, after=after)


CONTENT_TYPES = {
    "kernel": "text/x-python; charset=utf-8",
    "proof": "application/zip",
    "solution": "application/json",
    "zip": "application/zip",
    "packed": "application/gzip",
}
RUN_WORDS = {"zip": "run folder", "packed": "packed run"}  # in the audit log


@never_cache
@require_safe
def node_download(request: SiteRequest, run_id: int, number: int, form: str) -> HttpResponse:
    """One kernel in a form of `OF_NODE`."""
    node = get_object_or_404(nodes_to_export(), run_id=run_id, number=number)
    try:
        name, body = OF_NODE[form](node)
    except NothingToExport as error:
        raise Http404(str(error)) from error
    if request.method == "GET":
        export_record(run=node.run, what=form, user=request.user, node=node.number)
    return attachment(name, body, CONTENT_TYPES[form])


@never_cache
@require_safe
def run_download(request: SiteRequest, run_id: int, form: str) -> HttpResponse:
    """A search in a form of `OF_RUN`."""
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    name, body = OF_RUN[form](run)
    if request.method == "GET":
        export_record(run=run, what=RUN_WORDS[form], user=request.user)
    return attachment(name, body, CONTENT_TYPES[form])


Page = Callable[[SiteRequest, str], HttpResponse]


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def run_import(request: SiteRequest) -> HttpResponseBase:
    """Import a packed search or a zipped run folder. A file that cannot be imported is 422 with the reason."""
    return import_form(request, registry.action("run.import"), _page)


def _page(request: SiteRequest, error: str = "") -> HttpResponse:
    context: dict[str, Any] = {"limit_mib": MAX_UPLOAD_BYTES >> 20, "error": error}
    return render(request, "interchange/run_import.html", context, status=422 if error else 200)


def import_form(request: SiteRequest, action: Action, page: Page) -> HttpResponseBase:
    """A page with a form that imports: `page` shows it, also with why a file was not imported."""
    if request.method != "POST":
        return page(request, "")
    try:
        outcome = submit(request, action, {})
    except ActionRefused as error:
        return page(request, str(error))
    return done(request, action, outcome)


SHOWN = 24


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def gallery(request: SiteRequest) -> HttpResponseBase:
    """A POST imports an uploaded file, or the one `name`d among those on this machine, and leads to its replay."""
    return import_form(request, registry.action("gallery.import"), _gallery_page)


def _gallery_page(request: SiteRequest, error: str = "") -> HttpResponse:
    runs = Run.objects.filter(origin=Run.Origin.IMPORT).select_related("problem", "device", "owner").order_by("-pk")
    imported = list(runs[:SHOWN])
    by_file = {run.imported.get("file"): run for run in reversed(imported)}
    files = [(file, by_file.get(file.name)) for file in recorded_files()]
    context: dict[str, Any] = {
        "rows": [(summary, play_address(summary.run)) for summary in run_summaries(imported)],
        "more": max(0, runs.count() - SHOWN),
        "files": [(file, run, play_address(run) if run else "") for file, run in files],
        "limit_mib": MAX_UPLOAD_BYTES >> 20,
        "error": error,
    }
    return render(request, "interchange/gallery.html", context, status=422 if error else 200)
