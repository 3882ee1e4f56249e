"""What the page of the self-test says, who may start one, and when a device is trusted."""

from __future__ import annotations

import pytest
from django.urls import reverse
from django.utils import timezone

from judge.devices.models import Device
from judge.devices.services import device_trusted
from judge.evaluations.models import Evaluation
from judge.selftest.models import SelfTest
from judge.selftest.results import State
from judge.selftest.services import selftest_queue, selftest_run
from judge.selftest.trust import Standing, trust_of
from judge.tasks import run_self_test
from judge.values import JudgeError
from tests.judge.selftest_makers import FakeBench, entry, passed, stored, wrong
from tests.pages import client_of
from tests.search.makers import make_problem

pytestmark = pytest.mark.django_db


@pytest.fixture
def device() -> Device:
    return Device.objects.create(name="interpreter", kind=Device.Kind.INTERPRETER, title="Interpreter")


def standing(device: Device) -> Standing:
    return trust_of(device, now=timezone.now()).standing


def test_a_device_is_green_then_amber_after_a_week_and_red_after_any_miss(device):
    assert standing(device) is Standing.NEVER and device_trusted(device)
    stored(device)
    assert standing(device) is Standing.GREEN and device_trusted(device)
    stored(device, State.RIGHT, State.MISSED)
    assert standing(device) is Standing.RED and not device_trusted(device)
    stored(device, days=8)
    assert standing(device) is Standing.AMBER and device_trusted(device)


@pytest.mark.parametrize("state", [State.REASON, State.LOST])
def test_a_wrong_reason_and_a_lost_entry_are_red_too(device, state):
    stored(device, State.RIGHT, state)
    assert standing(device) is Standing.RED


def test_another_toolchain_makes_it_amber_and_says_which(device):
    stored(device)
    facts = {"problem": make_problem(), "device": device, "candidate_hash": "0" * 64, "source": "", "protocol": "x"}
    Evaluation.objects.create(**facts, toolchain="torch 2.14.0 triton 3.9.0 sm_90", verdict="wrong", stage="smoke")
    found = trust_of(device, now=timezone.now())
    assert found.standing is Standing.AMBER and "triton 3.9.0" in found.why


def test_a_viewer_reads_the_last_result_and_is_offered_no_button(device):
    stored(device, State.RIGHT, State.MISSED)
    viewer = client_of("viewer")
    assert "failed" in viewer.get(reverse("self-test-list")).content.decode()
    page = viewer.get(reverse("self-test-detail", args=[device.name])).content.decode()
    assert "1 of 2" in page and "the entry e01" in page and "torch 2.13.0" in page
    assert page.index("the entry e01") < page.index("the entry e00")  # the miss comes first
    assert "Run self-test" not in page
    assert viewer.post(reverse("self-test-start", args=[device.name])).status_code == 403


def test_an_operator_starts_one_and_a_second_start_changes_nothing(device, monkeypatch):
    sent = []
    monkeypatch.setattr(run_self_test, "apply_async", lambda **options: sent.append(options))
    operator = client_of("operator")
    for _ in range(2):
        assert operator.post(reverse("self-test-start", args=[device.name])).status_code == 302
    row = SelfTest.objects.get()
    assert row.state == SelfTest.State.QUEUED and row.started_by.get_username() == "some-operator"
    assert [(one["args"], one["queue"]) for one in sent] == [([row.pk], device.queue)]
    page = operator.get(reverse("self-test-detail", args=[device.name])).content.decode()
    assert "waiting for the worker" in page and "Run self-test" not in page and "every 5s" in page


def test_one_that_waits_or_runs_is_stopped_after_a_question(device):
    operator, address = client_of("operator"), reverse("self-test-stop", args=[device.name])
    row = selftest_queue(device=device)
    assert address in operator.get(reverse("self-test-detail", args=[device.name])).content.decode()
    assert f"Stop the self-test of {device.name}?" in operator.post(address).content.decode()
    assert operator.post(address, {"sure": "1"}).status_code == 302
    assert selftest_run(selftest=row, found=[entry("e01")], open_bench=lambda name: pytest.fail("it would run")) is None
    assert operator.post(address, {"sure": "1"}).status_code == 409
    again = selftest_queue(device=device)

    def stopped(row):
        assert operator.post(address, {"sure": "1"}).status_code == 302

    bench = FakeBench(lambda job: wrong())
    report = selftest_run(
        selftest=again, found=[entry("e01")], open_bench=lambda name: bench, workers=1, progress=stopped
    )
    again.refresh_from_db()
    assert report.left == 0 and (again.state, again.message) == ("failed", "Stopped by some-operator."), "it stays so"


def test_a_page_that_asked_how_far_it_is_shows_the_result_once_there_is_one(device):
    viewer, place = client_of("viewer"), reverse("self-test-detail", args=[device.name])
    waiting = selftest_queue(device=device)
    assert "HX-Refresh" not in viewer.get(place, headers={"HX-Request": "true"}).headers
    waiting.delete()
    stored(device, State.RIGHT)
    assert viewer.get(place, headers={"HX-Request": "true"}).headers["HX-Refresh"] == "true"


def test_what_ran_is_stored_and_a_second_worker_finds_nothing_to_do(device):
    row = selftest_queue(device=device)
    bench = FakeBench(lambda job: wrong())
    first = selftest_run(selftest=row, found=[entry("e01"), entry("e02")], open_bench=lambda name: bench, workers=1)
    assert first is not None and not first.red
    assert selftest_run(selftest=row, found=[entry("e01")], open_bench=lambda name: bench) is None
    row.refresh_from_db()
    assert (row.state, row.red, row.done, row.total) == ("finished", False, 2, 2)
    assert [one.id for one in trust_of(device, now=timezone.now()).rows] == ["e01", "e02"]


def test_a_miss_stored_is_a_device_that_is_not_trusted(device):
    row = selftest_queue(device=device)
    selftest_run(selftest=row, found=[entry("e01")], open_bench=lambda name: FakeBench(lambda job: passed()))
    assert not device_trusted(device)


def test_a_judge_that_cannot_start_leaves_a_message_and_no_result(device):
    stored(device)
    row = selftest_queue(device=device)

    def broken(name):
        raise JudgeError("the fork server did not start")

    with pytest.raises(JudgeError):
        selftest_run(selftest=row, found=[entry("e01")], open_bench=broken)
    page = client_of("operator").get(reverse("self-test-detail", args=[device.name])).content.decode()
    assert "the fork server did not start" in page and "Run self-test" in page
    assert standing(device) is Standing.GREEN


def test_a_row_that_is_gone_ends_the_task_quietly():
    run_self_test(12345)


def test_an_unreadable_old_result_is_no_crash(device):
    row = stored(device)
    SelfTest.objects.filter(pk=row.pk).update(result={"results": [{"corpus": "gone"}]})
    assert client_of("viewer").get(reverse("self-test-detail", args=[device.name])).status_code == 200
