"""The fleet: what each device does now, what waits, who serves it, and what its GPU says or why it says nothing."""

from __future__ import annotations

import queue
import threading
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.urls import reverse
from django.utils import timezone

from judge.bench.device.nvml import GpuReading
from judge.devices import benches
from judge.devices.benches import device_beat, heartbeat_start
from judge.devices.models import Device, DeviceCheck
from judge.problems.models import Problem
from search.fleet import queries as fleet
from search.fleet.queries import fleet_rows
from search.live.panels import evidence_of
from search.records.models import Node
from tests.judge.gpu_rows import gpu
from tests.pages import client_of
from tests.search.live_rows import reserve
from tests.search.makers import make_device, make_problem, make_run

READING = GpuReading(97, 70123, 143771, 64, 1755, 1980)


@pytest.fixture(autouse=True)
def _no_gpu_here(monkeypatch):
    cache.clear()
    monkeypatch.setattr(fleet, "gpu_readings", dict)
    yield
    cache.clear()


def row(device, sort="name"):
    return next(one for one in fleet_rows([device], now=timezone.now(), sort=sort) if one.device == device)


def page(role="viewer", query=""):
    return client_of(role).get(reverse("device-list") + query).content.decode()


@pytest.mark.django_db
def test_a_gpu_shows_use_memory_temperature_and_clock_when_its_driver_answers(monkeypatch):
    gpu()
    monkeypatch.setattr(fleet, "gpu_readings", lambda: {"GPU-1b2c": READING})
    html = page()
    for text in ("97 %", "70123 of 143771 MiB", "64 °C", "1755 of 1980 MHz"):
        assert text in html, text


@pytest.mark.django_db
def test_without_an_answer_the_reading_is_unknown_and_says_why(monkeypatch):
    device = gpu()
    assert row(device).why_not == "no NVIDIA driver answers where the web server runs"
    assert "unknown: no NVIDIA driver answers" in page()
    cache.clear()
    monkeypatch.setattr(fleet, "gpu_readings", lambda: {"GPU-other": READING})
    assert row(device).why_not == "the NVIDIA driver does not list this GPU"
    assert "another machine" in row(gpu(remote=True)).why_not


@pytest.mark.django_db
def test_what_is_judged_now_is_linked_and_what_waits_is_counted_with_its_age():
    run = make_run()
    at_work, waits = reserve(run), reserve(run)
    soon = timezone.now() + timedelta(seconds=20)
    Node.objects.filter(pk=at_work.pk).update(state="judging", lease_owner="host:1:abc", lease_until=soon)
    Node.objects.filter(pk=waits.pk).update(state="judging", lease_owner="queue", lease_until=soon)
    found = row(run.device)
    assert [(job.run_id, job.number) for job in found.jobs] == [(run.pk, 1)]
    assert (found.waiting, found.oldest) == (1, waits.created_at)
    html = page()
    assert reverse("node-detail", args=[run.pk, 1]) in html and "1 waiting" in html
    lapsed = timezone.now() - timedelta(seconds=1)
    Node.objects.filter(pk=at_work.pk).update(lease_until=lapsed)
    assert (row(run.device).jobs, row(run.device).waiting) == ((), 2)


@pytest.mark.django_db
def test_a_preflight_is_work_of_its_device_and_a_waiting_or_lost_one_is_not():
    device, problem = make_device(), make_problem()
    for state, age_s, at_work, waiting in (("running", 40, 1, 0), ("queued", 40, 0, 1), ("running", 4000, 0, 0)):
        started = timezone.now() - timedelta(seconds=age_s)
        said = {"state": state, "started": started.isoformat(), "stages": []}
        Problem.objects.update(title="<relu>", admission={device.name: said})
        found = row(device)
        assert (len(found.preflights), found.waiting) == (at_work, waiting), state
        if at_work:
            html = page()
            assert "preflight of <a" in html and "&lt;relu&gt;" in html and "idle" not in html
            assert "/preflight/stop" not in html, "a viewer stops nothing"
            assert reverse("problem-detail", args=[problem.slug]) in html
        if waiting:
            assert found.oldest == started


@pytest.mark.django_db
def test_the_cockpit_says_that_a_node_which_no_worker_has_taken_waits_for_its_device():
    run = make_run()
    node = reserve(run)
    words = {}
    for owner in ("queue", "retry", "host:1:abc"):
        Node.objects.filter(pk=node.pk).update(state="judging", lease_owner=owner)
        words[owner] = evidence_of(run, timezone.now()).doing[0].label
    waits = "has waited for its device for"
    assert words == {"queue": waits, "retry": waits, "host:1:abc": "is being judged for"}


@pytest.mark.django_db
def test_a_device_that_nobody_serves_is_dead_with_age_cause_and_remedy():
    device = make_device()
    now = timezone.now()
    device_beat(device_ids=[device.pk], now=now - timedelta(minutes=4))
    device.refresh_from_db()
    html = page()
    assert "Silent for 4 min" in html and "make run" in html and "the last known ones" in html
    device_beat(device_ids=[device.pk], now=now)
    device.refresh_from_db()
    assert (
        not row(device).dead and "Silent for" not in client_of("operator").get(reverse("device-list")).content.decode()
    )
    Device.objects.update(seen_at=None)
    device.refresh_from_db()
    assert row(device).dead


@pytest.mark.django_db(transaction=True)
def test_a_worker_beats_while_it_works_and_stops_when_told(monkeypatch):
    device, seen = make_device(), queue.Queue()

    def beat(**given):
        device_beat(**given)
        seen.put(Device.objects.values_list("seen_at", flat=True).get(pk=device.pk))

    monkeypatch.setattr(benches, "device_beat", beat)
    assert heartbeat_start([]) is None
    done = heartbeat_start([device.pk], every_s=0.001)
    assert len({seen.get(timeout=300) for _ in range(3)}) == 3
    (thread,) = (one for one in threading.enumerate() if one.name == "device-heartbeat")
    done.set()
    thread.join(60)
    assert not thread.is_alive()


@pytest.mark.django_db
def test_the_noise_floor_is_that_of_the_gpu_that_stands_there_now():
    device = gpu()
    given = {"noise_floor": 0.006, "allowed": 0.03, "ratio": 1.0, "pairs": 48, "kernel_us": 100.0}
    DeviceCheck.objects.create(device=device, identity="GPU-1b2c", **given)
    DeviceCheck.objects.create(device=device, identity="GPU-before", **(given | {"noise_floor": 0.02}))
    assert row(device).noise.noise_floor == 0.006
    assert "0.6 %" in page()


@pytest.mark.django_db
def test_a_machine_without_a_gpu_says_how_one_joins():
    make_device()
    assert "No GPU was found" in page()
    gpu()
    assert "No GPU was found" not in client_of("operator").get(reverse("device-list")).content.decode()


@pytest.mark.django_db
def test_operators_act_from_the_fleet_and_viewers_see_no_acts():
    device = gpu()
    assert reverse("device-state", args=[device.pk]) not in page()
    operator = client_of("operator")
    html = operator.get(reverse("device-list")).content.decode()
    assert reverse("device-state", args=[device.pk]) in html and reverse("device-check", args=[device.pk]) in html
    operator.post(reverse("device-state", args=[device.pk]), {"state": "draining", "key": "k1"})
    assert "No new searches start here" in operator.get(reverse("device-list")).content.decode()


@pytest.mark.django_db
def test_the_old_address_leads_here_and_a_device_refreshes_by_itself():
    device = make_device()
    viewer = client_of("viewer")
    assert viewer.get("/devices/")["Location"] == "/fleet/"
    part = viewer.get(f"/fleet/?device={device.pk}", headers={"HX-Request": "true"})
    html = part.content.decode()
    assert html.strip().startswith(f'<div id="device-{device.pk}"') and "<form" not in html
    assert viewer.get("/fleet/?device=99999", headers={"HX-Request": "true"}).status_code == 404
    assert viewer.get("/fleet/?device=99999&sort=nonsense").status_code == 200


@pytest.mark.django_db
def test_the_longest_queue_comes_first_when_asked():
    run, other = make_run(), gpu()
    Node.objects.filter(pk=reserve(run).pk).update(state="judging", lease_owner="queue", lease_until=timezone.now())
    rows = fleet_rows([other, run.device], now=timezone.now(), sort="queue")
    assert [one.device for one in rows] == [run.device, other]


@pytest.mark.django_db
def test_one_device_can_be_shown_alone_and_drained_by_key_and_an_unknown_one_is_said():
    make_device()
    gpu()
    operator = client_of("operator")
    alone = operator.get("/fleet/?worker=cuda:0").content.decode()
    assert alone.count('class="panel fleet-device"') == 1 and 'data-page-key="d"' in alone
    every = operator.get("/fleet/?worker=<b>").content.decode()
    assert every.count('class="panel fleet-device"') == 2 and 'data-page-key="d"' not in every
    assert "There is no device" in every and "<b>" not in every


@pytest.mark.django_db
def test_those_that_own_imported_numbers_come_after_all_others():
    kinds = {"external": "a", "compile": "b", "interpreter": "c", "cuda": "d"}
    devices = [Device.objects.create(name=name, kind=kind, title=name) for kind, name in kinds.items()]
    assert [device.name for device in fleet.ordered(devices)] == ["c", "d", "b", "a"]
