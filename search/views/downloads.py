"""Files that leave the house: a kernel that runs by itself, and its proof."""

from __future__ import annotations

import re
from collections.abc import Callable

from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from search.exports import NothingToExport, kernel_file, proof_zip
from search.models import Node


@never_cache
@require_safe
def kernel_download(request: HttpRequest, run_id: int, number: int) -> HttpResponse:
    """The node's kernel as one .py with its provenance on top."""
    return _download(run_id, number, kernel_file, "text/x-python; charset=utf-8")


@never_cache
@require_safe
def proof_download(request: HttpRequest, run_id: int, number: int) -> HttpResponse:
    """Reference, kernel, verdict and a script that checks it again without this product."""
    return _download(run_id, number, proof_zip, "application/zip")


def _download(run_id: int, number: int, export: Callable[[Node], tuple[str, bytes]], content_type: str) -> HttpResponse:
    nodes = Node.objects.select_related("run__problem", "run__device", "run__owner", "evaluation__device", "parent")
    node = get_object_or_404(nodes, run_id=run_id, number=number)
    try:
        name, body = export(node)
    except NothingToExport as error:
        raise Http404(str(error)) from error
    headers = {
        "Content-Disposition": f'attachment; filename="{clean_name(name)}"',
        "X-Content-Type-Options": "nosniff",
        "Content-Security-Policy": "sandbox",
    }
    return HttpResponse(body, content_type=content_type, headers=headers)


def clean_name(name: str) -> str:
    """Letters, digits, dots, dashes and underscores only; never hidden, never empty."""
    cleaned = re.sub(r"[^A-Za-z0-9._-]+", "-", name).lstrip(".-")[-120:]
    return cleaned or "kernel"
