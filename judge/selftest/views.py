"""Pages of the judge's self-test: where each device stands, what became of every entry, a button to run it again."""

from __future__ import annotations

from django.http import HttpResponse
from django.shortcuts import get_object_or_404, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from adaexplore_site.core.requests import SiteRequest
from judge.devices.models import Device
from judge.devices.services import judging_devices
from judge.selftest.trust import CORPORA, trust_of, trusts


@never_cache
@require_safe
def self_test_list(request: SiteRequest) -> HttpResponse:
    """Every device that can be tried here, with its last self-test."""
    devices = list(judging_devices())
    found = trusts(devices, now=timezone.now())
    context = {
        "tested": [found[device.pk] for device in devices],
        "corpora": [(corpus.value, title) for corpus, (title, _) in CORPORA.items()],
    }
    return render(request, "selftest/self_tests.html", context)


@never_cache
@require_safe
def self_test_detail(request: SiteRequest, device: str) -> HttpResponse:
    """The last result of one device: counts per corpus, then every entry with its verdict and reason."""
    row = get_object_or_404(Device.objects.judging(), name=device)
    one = trust_of(row, now=timezone.now())
    response = render(request, "selftest/self_test.html", {"one": one, "startable": row in judging_devices()})
    if request.htmx and not one.under_way:  # the page asked how far it is, and it has ended: show the result
        response["HX-Refresh"] = "true"
    return response
