"""Taking a recorded search in through the browser, and out again."""

from __future__ import annotations

import secrets

from django.contrib import messages
from django.core.files.uploadedfile import UploadedFile
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from adaexplore_site.access import Role, require
from adaexplore_site.audit import ActionRefused
from adaexplore_site.requests import SiteRequest, form_key
from judge.models import Problem
from judge.selectors import judging_devices
from judge.views import preflight_start
from search.compat.archives import MAX_ZIP_BYTES
from search.models import Run
from search.removal import removal_of, removed_lately
from search.services import removing
from search.services.imports import search_import

LATELY = 10  # removals listed
EXAMINER = "interpreter"  # every machine has it; shapes alone tell much where a problem is too large for it


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def run_import(request: SiteRequest) -> HttpResponse:
    """Import a packed search or a zipped run folder. A file that is not taken is 422 with the reason."""
    if request.method != "POST":
        context = {"limit_mib": MAX_ZIP_BYTES >> 20, "removed": removed_lately(LATELY)}
        return render(request, "search/run_import.html", context)
    require(request.user, Role.OPERATOR)
    try:
        run = upload_take(request)
    except ActionRefused as error:
        context = {"error": str(error), "limit_mib": MAX_ZIP_BYTES >> 20}
        return render(request, "search/run_import.html", context, status=422)
    examine(run.problem)
    return redirect("run-detail", run_id=run.pk)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def run_remove(request: SiteRequest, run_id: int) -> HttpResponse:
    """Say what removing an imported search takes along and what is against it, and ask; a POST removes it."""
    if request.method == "POST":
        require(request.user, Role.OPERATOR)
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    status, error = 200, ""
    if request.method == "POST":
        try:
            removing.run_remove(run=run, user=request.user, key=form_key(request))
        except ActionRefused as refusal:
            status, error = 409, str(refusal)
        else:
            messages.success(request, "Removed. Its activity says by whom.")
            return redirect("run-activity", run_id=run_id)
    context = {"run": run, "removal": removal_of(run), "error": error, "key": secrets.token_urlsafe(16)}
    return render(request, "search/run_remove.html", context, status=status)


def upload_take(request: SiteRequest) -> Run:
    """The run of the uploaded file. Raises ActionRefused with what to do."""
    sent: UploadedFile[bytes] | None = request.FILES.get("file")
    if sent is None:
        raise ActionRefused("No file came with the form. Choose a .zip, .json or .json.gz file.")
    if sent.size is not None and sent.size > MAX_ZIP_BYTES:
        raise ActionRefused(f"The file is larger than {MAX_ZIP_BYTES >> 20} MiB. Import it by command: import_search.")
    return search_import(data=sent.read(), name=sent.name or "upload", user=request.user)


def examine(problem: Problem) -> None:
    """Queue the preflight of a problem nobody has looked at: a degenerate one must be flagged."""
    device = judging_devices().filter(name=EXAMINER).first()
    if device is not None and problem.state == Problem.State.PENDING and not problem.report_for(device.name):
        preflight_start(problem, device)
