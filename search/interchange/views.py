"""Files that leave the house: kernels, proofs, solutions, whole searches. Every download is in the audit."""

from __future__ import annotations

from collections.abc import Callable

from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.downloads import attachment
from adaexplore_site.core.requests import SiteRequest
from search.interchange.exports import NothingToExport, kernel_file, proof_zip
from search.interchange.files import run_folder_zip, run_packed
from search.interchange.flashinfer import solution_file
from search.interchange.services import export_record
from search.records.models import Node, Run


@never_cache
@require_safe
def kernel_download(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """The node's kernel as one .py with its provenance on top."""
    return _of_node(request, (run_id, number), "kernel", kernel_file, "text/x-python; charset=utf-8")


@never_cache
@require_safe
def proof_download(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """Reference, kernel, verdict and a script that checks it again without this product."""
    return _of_node(request, (run_id, number), "proof", proof_zip, "application/zip")


@never_cache
@require_safe
def solution_download(request: SiteRequest, run_id: int, number: int) -> HttpResponse:
    """A correct kernel as a flashinfer-bench solution."""
    return _of_node(request, (run_id, number), "solution", solution_file, "application/json")


@never_cache
@require_safe
def run_folder_download(request: SiteRequest, run_id: int) -> HttpResponse:
    """The search as AdaExplore's run folder, zipped."""
    return _of_run(request, run_id, "run folder", run_folder_zip, "application/zip")


@never_cache
@require_safe
def run_packed_download(request: SiteRequest, run_id: int) -> HttpResponse:
    """The search as AdaExplore's packed JSON, gzipped."""
    return _of_run(request, run_id, "packed run", run_packed, "application/gzip")


def _of_node(
    request: SiteRequest,
    place: tuple[int, int],
    what: str,
    export: Callable[[Node], tuple[str, bytes]],
    content_type: str,
) -> HttpResponse:
    nodes = Node.objects.select_related("run__problem", "run__device", "run__owner", "evaluation__device", "parent")
    node = get_object_or_404(nodes, run_id=place[0], number=place[1])
    try:
        name, body = export(node)
    except NothingToExport as error:
        raise Http404(str(error)) from error
    if request.method == "GET":
        export_record(run=node.run, what=what, user=request.user, node=node.number)
    return attachment(name, body, content_type)


def _of_run(
    request: SiteRequest, run_id: int, what: str, export: Callable[[Run], tuple[str, bytes]], content_type: str
) -> HttpResponse:
    run = get_object_or_404(Run.objects.select_related("problem", "device"), pk=run_id)
    name, body = export(run)
    if request.method == "GET":
        export_record(run=run, what=what, user=request.user)
    return attachment(name, body, content_type)
