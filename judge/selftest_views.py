"""Pages of the judge's self-test: where each device stands, what became of every entry, a button to run it again."""

from __future__ import annotations

import logging

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe
from kombu.exceptions import OperationalError

from adaexplore_site.access import Role, role_required
from adaexplore_site.requests import SiteRequest
from judge.models import Device, SelfTest
from judge.selectors import judging_devices
from judge.services.selftests import selftest_queue
from judge.tasks import run_self_test
from judge.trust import CORPORA, trust_of, trusts

log = logging.getLogger(__name__)


@never_cache
@require_safe
def self_test_list(request: SiteRequest) -> HttpResponse:
    """Every device that can be tried here, with its last self-test."""
    devices = _devices()
    found = trusts(devices, now=timezone.now())
    context = {
        "tested": [found[device.pk] for device in devices],
        "corpora": [(corpus.value, title) for corpus, (title, _) in CORPORA.items()],
    }
    return render(request, "judge/self_tests.html", context)


@never_cache
@require_safe
def self_test_detail(request: SiteRequest, device: str) -> HttpResponse:
    """The last result of one device: counts per corpus, then every entry with its verdict and reason."""
    row = get_object_or_404(Device.objects.filter(kind__in=(Device.Kind.INTERPRETER, Device.Kind.CUDA)), name=device)
    one = trust_of(row, now=timezone.now())
    response = render(request, "judge/self_test.html", {"one": one, "startable": row in _devices()})
    if request.htmx and not one.under_way:  # the page asked how far it is, and it has ended: show the result
        response["HX-Refresh"] = "true"
    return response


@role_required(Role.OPERATOR)
@require_POST
def self_test_start(request: SiteRequest, device: str) -> HttpResponse:
    """Queue a self-test for the device's worker. A second start while one is under way changes nothing."""
    row = get_object_or_404(judging_devices(), name=device)
    selftest = selftest_queue(device=row, user=request.user)
    if selftest is None:
        messages.info(request, f"A self-test of {row.name} is under way already.")
    else:
        _send(request, selftest)
    return redirect("self-test-detail", device=row.name)


def _send(request: SiteRequest, selftest: SelfTest) -> None:
    device = selftest.device
    try:
        run_self_test.apply_async(args=[selftest.pk], queue=device.queue, retry=False)
    except OperationalError as error:
        log.warning("self-test of %s is not sent: the broker is away (%s)", device.name, error)
        SelfTest.objects.filter(pk=selftest.pk).update(
            state=SelfTest.State.FAILED, message="The broker is away, so no worker was told. Start it again later."
        )
        messages.error(request, "The broker is away, so no worker could be told. Start it again later.")
        return
    messages.info(request, f"The self-test waits for the worker of {device.name}. Searches there wait meanwhile.")


def _devices() -> list[Device]:
    return list(judging_devices())
