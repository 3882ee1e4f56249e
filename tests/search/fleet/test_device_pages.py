"""The fleet and its devices: what is shown, who may drain and quarantine, what an act leaves behind."""

from __future__ import annotations

import pytest
from django.urls import reverse

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge.devices.models import Device
from judge.devices.services import judging_devices, served_devices
from search.fleet import services as devices
from search.fleet.services import device_state_set
from search.records.models import Run, RunEvent
from search.runs.services import run_resume
from tests.judge.gpu_rows import flagged, gpu, judged, passed, problem
from tests.pages import client_of
from tests.search.live_rows import grow, reserve
from tests.search.makers import make_device, make_run

pytestmark = pytest.mark.django_db


def page(device: Device, role: str = "viewer") -> str:
    return client_of(role).get(reverse("device-detail", args=[device.pk])).content.decode()


def test_an_empty_fleet_says_how_a_device_comes_to_be():
    assert "make run" in client_of("viewer").get(reverse("device-list")).content.decode()


def test_the_list_holds_state_trust_work_and_basis_of_each_device():
    device = gpu()
    passed(problem(), device, 243.7)
    Device.objects.create(name="external:A6000", kind="external", title="NVIDIA A6000 (reported, not ours)")
    html = client_of("viewer").get(reverse("device-list")).content.decode()
    for text in ("cuda:0", "NVIDIA H200", "measured", "not run", "Devices of imported searches", "reported"):
        assert text in html, text


def test_a_device_shows_peaks_sandbox_verdicts_and_what_waits():
    device = gpu()
    passed(problem(), device, 243.7)
    judged(problem("other"), device, "wrong")
    passed(flagged(), device, 28.7)
    html = page(device)
    for text in (
        "4.39 TB/s", "measured 2026-11-20", "3.35 TB/s", "published for NVIDIA H100 SXM", "not measured yet",
        "landlock", "pass <strong>2</strong>", "wrong <strong>1</strong>", "1 on degenerate problems",
        "device.cuda-0", "none", "580.159.04", "not run",
    ):  # fmt: skip
        assert text in html, text


def test_candidates_that_wait_are_counted_and_running_searches_linked():
    run = make_run()
    node = reserve(run, parent=0)
    node.state = "judging"
    node.save()
    html = page(run.device)
    assert "1 waiting or being judged" in html and reverse("run-detail", args=[run.pk]) in html
    assert "MODELLED" in html


def test_a_device_of_imported_numbers_offers_no_act():
    device = Device.objects.create(name="external:A6000", kind="external", title="A6000")
    html = page(device, "operator")
    assert "Nothing was measured on it" in html and "Quarantine</button>" not in html
    with pytest.raises(ActionRefused, match="imported"):
        device_state_set(device=device, state=Device.State.DRAINING, user=None)
    path = reverse("device-state", args=[device.pk])
    assert client_of("operator", "two").post(path, {"state": "draining"}).status_code == 409


def test_a_viewer_reads_and_may_not_act():
    device = gpu()
    assert "Quarantine</button>" not in page(device)
    viewer = client_of("viewer", "other")
    assert viewer.post(reverse("device-state", args=[device.pk]), {"state": "draining"}).status_code == 403


def test_quarantine_pauses_what_runs_there_and_leaves_an_audit_row():
    run, other = make_run(), gpu()
    operator = client_of("operator")
    path = reverse("device-state", args=[run.device_id])
    answer = operator.post(path, {"state": "quarantined", "key": "k1", "reason": "it lies"}, follow=True)
    html = answer.content.decode()
    assert "interpreter is quarantined. 1 running search paused." in html and "it lies" in html
    run.refresh_from_db()
    other.refresh_from_db()
    assert (run.state, run.device.state, other.state) == (Run.State.PAUSED, "quarantined", "active")
    action = AuditEntry.objects.get(object_type="device")
    assert (action.verb, action.before, action.after["paused"]) == ("device.quarantine", {"state": "active"}, [run.pk])
    assert action.actor.get_username() == "some-operator"
    assert RunEvent.objects.filter(run=run, kind="run.paused").count() == 1


def test_a_search_that_ends_while_its_device_is_quarantined_stops_nobody(monkeypatch):
    ends, stays = make_run(), make_run(seed=2)
    pause = devices.run_pause

    def late(*, run: Run, user: object) -> Run:
        if run == ends:
            Run.objects.filter(pk=run.pk).update(state=Run.State.FINISHED)
        return pause(run=run, user=user)

    monkeypatch.setattr(devices, "run_pause", late)
    device = ends.device
    device_state_set(device=device, state=Device.State.QUARANTINED, user=None, reason="noisy")
    device.refresh_from_db()
    states = [Run.objects.get(pk=run.pk).state for run in (ends, stays)]
    assert (device.state, states) == (Device.State.QUARANTINED, [Run.State.FINISHED, Run.State.PAUSED])


def test_the_same_form_twice_is_one_act():
    device, operator = gpu(), client_of("operator")
    for _ in range(2):
        operator.post(reverse("device-state", args=[device.pk]), {"state": "draining", "key": "k1"})
    assert AuditEntry.objects.filter(object_type="device").count() == 1


def test_a_device_without_trust_takes_no_new_search_and_resumes_none():
    run = make_run()
    device_state_set(device=run.device, state=Device.State.QUARANTINED, user=None)
    run.refresh_from_db()
    with pytest.raises(ActionRefused, match="takes no new searches"):
        make_run(seed=2)
    with pytest.raises(ActionRefused, match="quarantined"):
        run_resume(run=run, user=None)
    device_state_set(device=run.device, state=Device.State.ACTIVE, user=None)
    run.refresh_from_db()
    assert run_resume(run=run, user=None).state == Run.State.RUNNING


def test_a_draining_device_goes_on_with_what_it_has():
    run = make_run()
    assert device_state_set(device=run.device, state=Device.State.DRAINING, user=None) == []
    run.refresh_from_db()
    assert run.state == Run.State.RUNNING
    assert run.device not in judging_devices() and run.device in served_devices()


def test_an_unknown_state_is_not_found():
    path = reverse("device-state", args=[gpu().pk])
    assert client_of("operator").post(path, {"state": "'; drop"}).status_code == 404


def test_lists_and_pages_cost_the_same_number_of_queries_however_many_devices(django_assert_max_num_queries):
    device = gpu()
    passed(problem(), device, 243.7)
    client = client_of("viewer")
    paths = [reverse("device-list"), reverse("device-detail", args=[device.pk])]
    counts = []
    for path in paths:
        with django_assert_max_num_queries(22) as seen:
            assert client.get(path).status_code == 200
        counts.append(len(seen.captured_queries))
    for number in range(1, 6):
        Device.objects.create(name=f"cuda:{number}", kind="cuda", title="NVIDIA H200", arch="sm_90")
        passed(problem(f"p{number}"), device, 200.0 + number, audit="")
    grow(make_run(device=make_device()))
    for path, count in zip(paths, counts, strict=True):
        with django_assert_max_num_queries(count):
            assert client.get(path).status_code == 200
