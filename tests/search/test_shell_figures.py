"""The figures in the bar: GPUs at work, and what today has cost; unknown is never none."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from judge.models import Device
from search.models import Node, Proposal, Run
from search.shell_figures import figures_read, first_call
from tests.pages import client_of, full_run
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def call(run: Run, usd: str | None, *, age: timedelta = timedelta(0), model: str = "big") -> None:
    node = run.nodes.get(number=0)
    place = node.proposals.count() + 1
    price = None if usd is None else Decimal(usd)
    row = Proposal.objects.create(node=node, attempt=place, proposer="openai", model=model, price_usd=price)
    Proposal.objects.filter(pk=row.pk).update(created_at=timezone.now() - age)


def test_no_paid_call_is_no_zero():
    call(make_run(), "0", model="builtin")
    assert figures_read(timezone.now()).spend == "no paid calls"


def test_unpriced_calls_make_the_sum_a_least_one_and_alone_unknown():
    run = make_run()
    call(run, None)
    assert figures_read(timezone.now()).spend == "unknown (1 call unpriced)"
    call(run, "3.1")
    assert figures_read(timezone.now()).spend == "at least $3.10 (1 call unpriced)"
    Proposal.objects.filter(price_usd=None).delete()
    assert figures_read(timezone.now()).spend == "$3.10"
    Proposal.objects.update(price_usd=Decimal("0.001"))
    assert figures_read(timezone.now()).spend == "under $0.01"


def test_only_the_calls_of_today_count_wherever_the_day_begins():
    run, now = make_run(), timezone.now()
    for days in (9, 5, 3, 2, 2):
        call(run, "100", age=timedelta(days=days))
    call(run, "2")
    assert figures_read(now).spend == "$2.00"
    midnight = now.replace(hour=0, minute=0, second=0, microsecond=0)
    assert first_call(midnight) <= Proposal.objects.latest("pk").pk
    assert first_call(midnight - timedelta(days=4)) <= Proposal.objects.order_by("pk")[2].pk
    assert Proposal.objects.filter(pk__lt=first_call(midnight - timedelta(days=4))).count() == 2


def test_a_gpu_is_busy_while_it_judges_and_not_while_a_kernel_waits():
    run = full_run()
    gpu = Device.objects.create(name="cuda:0", kind="cuda", title="GPU")
    Device.objects.create(name="cuda:1", kind="cuda", title="GPU")
    Device.objects.create(name="far", kind="cuda", title="GPU", remote=True)
    Run.objects.filter(pk=run.pk).update(device=gpu)
    node = run.nodes.filter(state="proposing")
    node.update(state="judging", lease_owner="queue")
    assert (figures_read(timezone.now()).busy, figures_read(timezone.now()).gpus) == (0, 2)
    Node.objects.filter(run=run, state="judging").update(lease_owner="worker-1")
    assert figures_read(timezone.now()).busy == 1
    html = client_of("viewer").get("/problems/").content.decode()
    assert "GPUs 1/2" in html and "no paid calls" in html


def test_the_figures_are_asked_once_in_five_seconds(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "figures"}}
    cache.clear()
    viewer = client_of("viewer")
    viewer.get("/find/")
    with CaptureQueriesContext(connection) as queries:
        viewer.get("/find/")
    assert not [one for one in queries.captured_queries if "search_proposal" in one["sql"]]


def test_the_polled_list_brings_fresh_figures_along():
    full_run()
    html = client_of("viewer").get("/", headers={"HX-Request": "true"}).content.decode()
    assert 'id="figures"' in html and 'hx-swap-oob="true"' in html
