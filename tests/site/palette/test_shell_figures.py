"""The figures in the bar: GPUs at work, and what today has cost; unknown is never none."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.core.cache import cache
from django.db import connection
from django.db.models import F
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from adaexplore_site.palette.shell_figures import figures_read
from judge.devices.models import Device
from search.ledger.models import Spending
from search.records.models import Node, Run
from tests.pages import client_of, full_run
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


def call(run: Run, usd: str | None, *, days: int = 0) -> None:
    day = timezone.now().date() - timedelta(days=days)
    known, _ = Spending.objects.get_or_create(run=run, day=day, model="big", kind="large")
    more = {"calls": F("calls") + 1, "unpriced": F("unpriced") + int(usd is None), "usd": F("usd") + Decimal(usd or 0)}
    Spending.objects.filter(pk=known.pk).update(**more)


def today() -> str:
    return figures_read(timezone.now()).spent.day.amount.money


def test_no_paid_call_is_no_zero():
    make_run()
    html = client_of("viewer").get("/problems/").content.decode()
    assert "no paid calls" in html and "$0" not in html
    assert today() == ""


def test_unpriced_calls_make_the_sum_a_least_one_and_alone_unknown():
    run = make_run()
    call(run, None)
    assert today() == "unknown (1 call unpriced)"
    call(run, "3.1")
    assert today() == "at least $3.10 (1 call unpriced)"
    html = client_of("viewer").get("/problems/").content.decode()
    assert "at least $3.10" in html and "(1 call unpriced) today" in html


def test_only_the_calls_of_today_count():
    run = make_run()
    for days in (9, 3, 1):
        call(run, "100", days=days)
    call(run, "2")
    assert today() == "$2.00"


def test_a_gpu_is_busy_while_it_judges_and_not_while_a_kernel_waits():
    run = full_run()
    gpu = Device.objects.create(name="cuda:0", kind="cuda", title="GPU")
    Device.objects.create(name="cuda:1", kind="cuda", title="GPU")
    Device.objects.create(name="far", kind="cuda", title="GPU", remote=True)
    Run.objects.filter(pk=run.pk).update(device=gpu)
    node = run.nodes.filter(state="proposing")
    node.update(state="judging", lease_owner="queue")
    assert (figures_read(timezone.now()).busy, figures_read(timezone.now()).gpus) == (0, 2)
    until = timezone.now() + timedelta(seconds=30)
    Node.objects.filter(run=run, state="judging").update(lease_owner="worker-1", lease_until=until)
    assert figures_read(timezone.now()).busy == 1
    html = client_of("viewer").get("/problems/").content.decode()
    assert "GPUs 1/2" in html and "no paid calls" in html


def test_the_figures_are_asked_once_in_five_seconds(settings):
    settings.CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache", "LOCATION": "figures"}}
    cache.clear()
    viewer = client_of("viewer")
    viewer.get("/find/")
    with CaptureQueriesContext(connection) as queries:
        assert viewer.get("/find/").status_code == 200
    assert not [one for one in queries.captured_queries if "search_spending" in one["sql"]]


def test_the_polled_list_brings_fresh_figures_along():
    full_run()
    html = client_of("viewer").get("/", headers={"HX-Request": "true"}).content.decode()
    assert 'id="figures"' in html and 'hx-swap-oob="true"' in html
