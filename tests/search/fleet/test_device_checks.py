"""Checks of devices: what is stored, what they mean for the device and for what waits there, and who asks for one."""

from __future__ import annotations

import json
from io import StringIO
from types import SimpleNamespace

import pynvml
import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import IntegrityError, transaction
from django.urls import reverse
from kombu.exceptions import OperationalError

from adaexplore_site.core.models import AuditEntry
from judge import tasks as judge_tasks
from judge.bench.device.nvml import GpuHealth
from judge.devices.models import Device, DeviceCheck
from judge.selftest.noise_checks import check_last, check_run, noise_last
from judge.values import JudgeError, Outcome, Verdict
from search import tasks
from search.engine.devices import device_quarantine
from search.engine.leases import reap
from search.fleet.services import device_check, device_check_ask, device_state_set
from search.management import console
from search.management.commands import judge_check_device
from search.records import queue
from search.records.models import Node, Run, RunEvent
from search.records.queue import FollowUp
from tests.judge.gpu_rows import gpu, passed, problem
from tests.judge.twin_bench import TwinBench
from tests.pages import client_of
from tests.search.makers import Worker, make_device, make_run, told

pytestmark = pytest.mark.django_db
FINE = GpuHealth(True, 0)


def calibrate(device, bench, health=FINE) -> DeviceCheck:
    return check_run(device=device, bench_for=bench, health=lambda uuid: health)


def check(device, bench, asked=None, health=FINE) -> DeviceCheck:
    def run(**given):
        return check_run(**given, health=lambda uuid: health)

    return device_check(device=device, bench_for=bench, asked=asked, calibrate=run)


def page(device: Device, role: str = "viewer") -> str:
    return client_of(role).get(reverse("device-detail", args=[device.pk])).content.decode()


def test_a_quiet_device_gets_its_noise_floor_with_evidence_and_date():
    device = gpu()
    found = calibrate(device, TwinBench(0.006))
    found.refresh_from_db()
    assert found.passed and 0.003 < found.noise_floor < 0.012 and found.allowed == 0.03
    assert (found.pairs, found.identity, found.gpu_errors) == (48, "GPU-1b2c", 0)
    assert found.ratio_low <= found.ratio <= found.ratio_high
    html = page(device)
    assert "3 % allowed" in html and "n=48" in html and found.created_at.strftime("%Y-%m-%d") in html


def test_a_device_that_was_never_calibrated_says_so_and_one_without_a_clock_has_no_floor():
    assert "not measured yet" in page(gpu())
    html = page(make_device(), "operator")
    assert "times are modelled" in html and "check-title" not in html


def test_the_floor_of_another_gpu_under_the_same_name_is_not_shown():
    device = gpu()
    calibrate(device, TwinBench())
    device.facts["uuid"] = "GPU-next"
    device.save()
    assert noise_last(device) is None and "not measured yet" in page(device)


def test_outside_the_allowed_it_is_measured_once_more_before_it_counts():
    device, bench = gpu(), TwinBench(0.08)
    found = check(device, bench)
    assert not found.passed and found.cause == "noise" and "allowed are 3.0%" in found.message
    assert DeviceCheck.objects.count() == 2 and len(bench.jobs) == 6
    device.refresh_from_db()
    assert (device.state, device.state_cause) == (
        "quarantined",
        "noise",
    ) and "differs from itself" in device.state_reason
    html = page(device, "operator")
    assert "Check again" in html and "judge_check_device --device cuda:0" in html and "differs from itself" in html


def test_one_bad_moment_is_not_held_against_a_device():
    device = gpu()
    bench = TwinBench(0.08)
    measured = bench.evaluate

    def calmer(job, **options):
        bench.noise = 0.08 if len(bench.jobs) < 3 else 0.004
        return measured(job, **options)

    bench.evaluate = calmer
    assert check(device, bench).passed
    device.refresh_from_db()
    assert device.state == "active" and [row.passed for row in DeviceCheck.objects.order_by("id")] == [False, True]


def test_the_allowed_floor_is_a_setting(settings):
    settings.JUDGE_NOISE_FLOOR = 0.2
    assert check(gpu(), TwinBench(0.08)).passed


def test_a_right_kernel_that_fails_and_a_judge_that_fails_are_faults():
    device, bench = gpu(), TwinBench()
    bench.answers = [Outcome(Verdict.WRONG, stage="correctness", reason="value.mismatch", message="off")]
    assert check(device, bench).cause == "faults"
    device_state_set(device=device, state=Device.State.ACTIVE, user=None)
    bench.answers = [JudgeError("no zygote")] * 3
    found = check(device, bench)
    assert found.cause == "faults" and "three times in a row: no zygote" in found.message and found.noise_floor is None
    bench.answers = [JudgeError("once"), JudgeError("twice")]
    assert check(device, bench).passed


def test_new_gpu_errors_and_a_missing_gpu_quarantine_without_running_anything():
    device, bench = gpu(), TwinBench()
    assert check(device, bench, health=GpuHealth(True, 2)).cause == "gpu"
    assert not bench.jobs
    assert check(device, bench, health=GpuHealth(True, 2)).passed, "they are known by now"
    assert check(device, bench, health=GpuHealth(False)).cause == "gpu"
    device.refresh_from_db()
    assert device.state_cause == "gpu" and "does not list" in device.state_reason
    assert check(gpu(facts={"uuid": "GPU-old"}), bench, health=GpuHealth(True, None)).passed


def test_where_nothing_is_timed_the_kernel_only_has_to_be_right():
    device, bench = make_device(), TwinBench()
    found = check(device, bench, health=GpuHealth(False))
    assert found.passed and found.noise_floor is None and not bench.jobs[0].timing
    bench.answers = [Outcome(Verdict.CRASHED, stage="smoke", reason="run.died", message="off")]
    assert check(device, bench).cause == "faults"


@pytest.mark.parametrize(
    "fields",
    [
        {"noise_floor": 0.01},
        {"noise_floor": 0.05, "allowed": 0.03, "pairs": 48, "ratio": 1.0, "kernel_us": 50.0},
        {"noise_floor": -0.1, "allowed": 0.03, "pairs": 48, "ratio": 1.0, "kernel_us": 50.0},
    ],
)
def test_rows_that_contradict_themselves_are_refused(fields):
    device = gpu()
    with pytest.raises(IntegrityError), transaction.atomic():
        DeviceCheck.objects.create(device=device, **fields)
    with pytest.raises(IntegrityError), transaction.atomic():
        Device.objects.filter(pk=device.pk).update(state_cause="noise")


def test_work_waits_says_why_and_goes_on_by_itself_after_a_passed_check():
    run, worker = make_run(), Worker()
    device = run.device
    worker.work(worker.do(FollowUp("advance", run.pk))[:0])
    node = Node.objects.get(run=run, number=1)
    follow_ups = worker.do(FollowUp("propose", node.pk))
    device_quarantine(device=device, cause=Device.Cause.NOISE, reason="it rattles")
    assert not device_quarantine(device=device, cause=Device.Cause.NOISE, reason="it rattles more")
    assert worker.do(follow_ups[0]) == [] and not worker.bench.jobs
    for _ in range(12):
        assert worker.later() == [], "it waits as long as it takes, without using up its attempts"
    node.refresh_from_db()
    run.refresh_from_db()
    assert (node.state, node.attempts, run.state) == ("judging", 0, Run.State.RUNNING)
    html = client_of("viewer").get(reverse("run-detail", args=[run.pk])).content.decode()
    for words in ("has waited for its device for", "rattles more", "judge_check_device --device interpreter"):
        assert words in html
    assert RunEvent.objects.filter(run=run, kind="device.quarantined").count() == 1

    check(device, TwinBench(), asked=device_check_ask(device=device, user=None))
    device.refresh_from_db()
    assert (device.state, device.state_cause, device.state_reason) == ("active", "", "")
    assert RunEvent.objects.filter(run=run, kind="device.activated").count() == 1
    worker.work(reap())
    run.refresh_from_db()
    assert (run.state, len(told(run))) == (Run.State.FINISHED, 5)


def test_what_a_quarantined_device_has_measured_stays_on_the_pages_of_problems():
    device, row = gpu(), problem()
    passed(row, device, 243.7)
    device_quarantine(device=device, cause=Device.Cause.NOISE, reason="it rattles")
    client = client_of("viewer")
    html = client.get(reverse("problem-detail", args=[row.slug])).content.decode()
    assert "448 µs" in html and "Cost on" in html and "Check now" not in html
    assert "448 µs" in client.get(reverse("problem-list")).content.decode()


def test_only_a_check_that_somebody_asked_for_ends_a_quarantine():
    device = gpu()
    device_quarantine(device=device, cause=Device.Cause.NOISE, reason="it rattles")
    check(device, TwinBench())
    device.refresh_from_db()
    assert device.state == "quarantined"


def test_what_a_person_decided_no_check_undoes():
    device = gpu()
    device_state_set(device=device, state=Device.State.QUARANTINED, user=None, reason="I do not like it")
    check(device, TwinBench(), asked=device_check_ask(device=device, user=None))
    check(device, TwinBench(0.5))
    device.refresh_from_db()
    assert (device.state, device.state_cause, device.state_reason) == ("quarantined", "", "I do not like it")


def test_an_operator_checks_again_once_per_form_and_a_viewer_may_not(monkeypatch):
    sent = []
    post = SimpleNamespace(send_task=lambda name, **options: sent.append((name, options["args"], options["queue"])))
    monkeypatch.setattr(queue, "current_app", post)
    device = gpu()
    path = reverse("device-check", args=[device.pk])
    assert client_of("viewer").post(path, {"key": "k"}).status_code == 403
    operator = client_of("operator", "other")
    answer, _ = (operator.post(path, {"key": "k"}, follow=True) for _ in range(2))
    action = AuditEntry.objects.get(verb="device.check")
    assert sent == [("search.tasks.check_device", [device.pk, action.pk], device.queue)]
    assert "is queued for the worker" in answer.content.decode() and action.actor.get_username() == "other"
    external = Device.objects.create(name="external:A", kind="external", title="A")
    assert operator.post(reverse("device-check", args=[external.pk])).status_code == 409


def test_a_broker_that_is_away_is_said(monkeypatch):
    def away(*args, **options):
        raise OperationalError("no broker")

    monkeypatch.setattr(queue, "current_app", SimpleNamespace(send_task=away))
    answer = client_of("operator").post(reverse("device-check", args=[gpu().pk]), {"key": "k"}, follow=True)
    assert "The message broker is not available" in answer.content.decode()


def test_every_hour_each_device_that_measures_is_asked(monkeypatch, settings):
    sent = []
    monkeypatch.setattr(queue, "current_app", SimpleNamespace(send_task=lambda name, **o: sent.append(o["queue"])))
    make_device(), gpu()
    Device.objects.create(name="lab", kind="cuda", title="lab", remote=True)
    tasks.check_devices()
    assert sent == ["device.cuda-0"]
    assert settings.CELERY_BEAT_SCHEDULE["check-devices"]["task"] == tasks.check_devices.name


def test_every_device_here_is_asked_to_rest_whatever_its_state(monkeypatch, settings):
    sent = []
    monkeypatch.setattr(
        tasks, "current_app", SimpleNamespace(send_task=lambda name, **o: sent.append((name, o["queue"])))
    )
    make_device(), gpu()
    Device.objects.create(name="lab", kind="cuda", title="lab", remote=True)
    tasks.rest_devices()
    assert sorted(sent) == [("judge.tasks.rest", "device.cuda-0"), ("judge.tasks.rest", "device.interpreter")]
    assert settings.CELERY_BEAT_SCHEDULE["rest-devices"]["task"] == tasks.rest_devices.name
    assert judge_tasks.rest.name == "judge.tasks.rest"


def test_a_worker_calibrates_its_own_devices_first_and_the_task_may_come_twice(monkeypatch):
    bench, device = TwinBench(), gpu()
    monkeypatch.setattr(tasks, "bench_for", bench)
    monkeypatch.setattr("judge.selftest.noise_checks.gpu_health", None)  # bound as a default: never called here
    monkeypatch.setattr(tasks, "device_check", lambda **given: check(given["device"], bench, given.get("asked")))
    make_device()

    def worker(*queues):
        return SimpleNamespace(app=SimpleNamespace(amqp=SimpleNamespace(queues=SimpleNamespace(consume_from=queues))))

    tasks.check_first(sender=worker("device.interpreter", "io"))
    assert not bench.jobs
    tasks.check_first(sender=worker(device.queue))
    assert DeviceCheck.objects.count() == 1
    for _ in range(2):
        tasks.check_device(device.pk)
    tasks.check_device(99999)
    assert DeviceCheck.objects.count() == 3 and check_last(device).passed


def test_the_command_prints_the_floor_and_ends_with_one_when_it_does_not_pass(monkeypatch):
    bench, device = TwinBench(0.004), gpu()
    monkeypatch.setattr(console, "devices_sync", lambda: [])
    monkeypatch.setattr(judge_check_device, "bench_for", bench)
    monkeypatch.setattr(pynvml, "nvmlInit", lambda: None)  # a driver that lists the GPU of the row
    monkeypatch.setattr(pynvml, "nvmlShutdown", lambda: None)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCount", lambda: 1)
    for name, answer in {"HandleByIndex": 0, "UUID": "GPU-1b2c", "MigMode": [0, 0], "TotalEccErrors": 0}.items():
        monkeypatch.setattr(pynvml, f"nvmlDeviceGet{name}", lambda *_, answer=answer: answer)
    out = StringIO()
    call_command("judge_check_device", "--device", "cuda:0", stdout=out)
    assert "noise floor 0." in out.getvalue() and "48 pairs" in out.getvalue() and "is active" in out.getvalue()
    bench.noise = 0.09
    out = StringIO()
    with pytest.raises(SystemExit) as end:
        call_command("judge_check_device", "--device", "cuda:0", "--json", stdout=out)
    row = json.loads(out.getvalue())
    assert end.value.code == 1 and row["state"] == "quarantined" and row["cause"] == "noise" and row["allowed"] == 0.03
    bench.noise = 0.004
    call_command("judge_check_device", "--device", "cuda:0", stdout=StringIO())
    device.refresh_from_db()
    assert device.state == "active"
    with pytest.raises(CommandError, match="no device 'cuda:7'"):
        call_command("judge_check_device", "--device", "cuda:7")
