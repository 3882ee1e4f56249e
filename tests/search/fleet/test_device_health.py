"""What quarantines a device besides its checks: faults of the judge in a row, GPU errors, baselines that drift."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from django.utils import timezone

from adaexplore_site.core.models import AuditEntry
from judge.bench.device.nvml import Gpu, GpuHealth
from judge.bench.processes.baselines import Baselines, KnownTimes
from judge.devices.drift import eager_drift
from judge.devices.models import Device, DeviceCheck
from judge.devices.services import devices_sync
from judge.evaluations.models import Evaluation, Measurement
from judge.values import Basis, Job, JudgeError, Outcome, ProblemSpec, Subject, Timing, Verdict
from search.engine.devices import device_faulted, device_judged
from search.fleet.services import device_check, device_check_ask, device_state_set
from search.records.models import Node, Run
from tests.judge.gpu_rows import gpu, judged, passed, problem
from tests.pages import client_of
from tests.search.makers import Worker, make_device, make_run, told

pytestmark = pytest.mark.django_db
FINE = GpuHealth(True, 0)
LOST = {"reason": "judge.failed", "message": "no zygote"}


class Store:
    """A bench with baselines on disk that remembers how often it was told to give them up."""

    def __init__(self) -> None:
        self.forgotten = 0
        self.baselines = self

    def forget_all(self) -> None:
        self.forgotten += 1


def state(device: Device) -> tuple[str, str]:
    device.refresh_from_db()
    return device.state, device.state_cause


def measured(device: Device, eager_us: float, of: str = "row-softmax") -> Evaluation:
    """A pass whose eager time is `eager_us`, with a narrow interval."""
    from judge.problems.models import Problem

    row = Problem.objects.filter(slug=of).first() or problem(of)
    evaluation = passed(row, device, 200.0, eager_us=eager_us)
    Measurement.objects.filter(evaluation=evaluation, subject="eager").update(
        low_us=eager_us * 0.998, high_us=eager_us * 1.002
    )
    return Evaluation.objects.select_related("device", "problem").get(pk=evaluation.pk)


def judge(device: Device, bench: Store, *eager_us: float, of: str = "row-softmax") -> None:
    for us in eager_us:
        device_judged(evaluation=measured(device, us, of), bench=bench)


def test_the_third_fault_in_a_row_quarantines_and_a_verdict_between_starts_anew():
    device = gpu()

    def fault():
        device_faulted(device=device, message="no zygote", health=lambda uuid: FINE)

    fault(), fault()
    device_judged(evaluation=judged(problem(), device, "wrong"), bench=Store())
    fault(), fault()
    assert state(device) == ("active", "")
    fault()
    assert state(device) == ("quarantined", "faults") and "no zygote" in device.state_reason
    device_state_set(device=device, state=Device.State.ACTIVE, user=None)
    fault()
    assert state(device) == ("active", ""), "a person's decision starts anew"


def test_lost_evaluations_are_faults_of_their_device():
    device, row = make_device(), problem()
    for _ in range(3):
        device_judged(evaluation=judged(row, device, "lost", **LOST), bench=Store())
    assert state(device) == ("quarantined", "faults")


def test_a_fault_on_a_gpu_with_new_errors_needs_no_second():
    device = gpu()
    device_faulted(device=device, message="context broke", health=lambda uuid: GpuHealth(True, 4))
    assert state(device) == ("quarantined", "gpu") and "4 new uncorrected" in device.state_reason


def test_a_bench_that_cannot_start_loses_no_candidate_the_search_waits():
    class Broken:
        def __call__(self, device):
            raise JudgeError("torch is missing")

    worker, run = Worker(bench=Broken()), make_run()
    run = worker.run(run)
    assert state(run.device) == ("quarantined", "faults") and "torch is missing" in run.device.state_reason
    assert run.state == Run.State.RUNNING and told(run) == []
    worker.bench = Worker().bench
    device_state_set(device=run.device, state=Device.State.ACTIVE, user=None)
    worker.work(worker.later(40))
    run.refresh_from_db()
    assert (run.state, len(told(run))) == (Run.State.FINISHED, 5)
    assert not Node.objects.filter(run=run, reason__contains="lost").exists()


def test_a_candidate_that_breaks_the_judge_once_does_not_stop_the_search():
    worker = Worker()
    worker.bench.outcomes[1] = Outcome(Verdict.LOST, stage="judge", reason="judge.failed", message="once")
    run = worker.run(make_run())
    assert run.state == Run.State.FINISHED and state(run.device) == ("active", "")


def test_two_eager_times_in_a_row_that_are_off_have_every_baseline_measured_again():
    device, bench = gpu(), Store()
    judge(device, bench, 447.0, 446.0, 465.0)
    assert not bench.forgotten and state(device) == ("active", "")
    judge(device, bench, 466.0)
    device.refresh_from_db()
    assert bench.forgotten == 1 and device.baselines_at is not None and device.state == "active"
    action = AuditEntry.objects.get(verb="device.drift")
    assert action.actor is None and "+4.3%" in action.after["reason"]
    html = client_of("viewer").get(f"/devices/{device.pk}/").content.decode()
    assert "baselines drifted" in html and "the judge," in html
    assert "the device has drifted" in client_of("viewer", "two").get("/problems/row-softmax/").content.decode()
    judge(device, bench, 466.0, 465.5)
    assert bench.forgotten == 1, "what is measured from then on counts"
    assert "the device has drifted" not in client_of("viewer", "three").get("/problems/row-softmax/").content.decode()


def test_one_eager_time_that_is_off_is_chance_wherever_it_was():
    device, bench = gpu(), Store()
    judge(device, bench, 447.0, 465.0, 447.5, 465.0, 447.0)
    judge(device, bench, 80.0, of="other")
    judge(device, bench, 90.0, of="other")
    judge(device, bench, 447.0)
    assert not bench.forgotten


def test_two_problems_that_are_off_in_a_row_are_a_drift():
    device, bench = gpu(), Store()
    judge(device, bench, 447.0)
    judge(device, bench, 80.0, of="other")
    judge(device, bench, 430.0)
    judge(device, bench, 84.0, of="other")
    assert bench.forgotten == 1


def test_a_problem_with_two_speeds_has_everything_measured_again_once_an_hour_at_most():
    device, bench = gpu(), Store()
    judge(device, bench, 447.0, 409.0, 409.0)
    judge(device, bench, 409.0, 447.0, 447.0, 447.0)
    assert bench.forgotten == 1 and state(device) == ("active", "")
    Device.objects.update(baselines_at=timezone.now() - timedelta(hours=2))
    judge(device, bench, 409.0, 409.0)
    assert bench.forgotten == 2 and state(device) == ("active", "")


def calibrated(device: Device, *kernel_us: float, asked: AuditEntry | None = None, store: Store | None = None) -> None:
    """Checks of the device whose kernel takes these times, each within the noise floor."""
    for us in kernel_us:
        device.refresh_from_db()
        fields = {"noise_floor": 0.02, "allowed": 0.03, "pairs": 448, "ratio": 1.0, "toolchain": "one"}
        found = DeviceCheck(device=device, identity="GPU-1b2c", kernel_us=us, **fields)

        def calibrate(found=found, **given):
            found.save()
            return found

        device_check(device=device, bench_for=lambda device: store or Store(), asked=asked, calibrate=calibrate)


def test_a_calibration_kernel_that_is_off_twice_in_a_row_is_the_device_s_doing():
    device, store = gpu(), Store()
    calibrated(device, 46.0, 46.3, 48.5, 46.1, 48.5, store=store)
    assert state(device) == ("active", "") and not store.forgotten
    calibrated(device, 48.4, store=store)
    assert state(device) == ("quarantined", "drift") and "48.4 µs, +5.2%" in device.state_reason
    assert store.forgotten == 1 and device.baselines_at is not None
    calibrated(device, 48.4, asked=device_check_ask(device=device, user=None))
    assert state(device) == ("active", "")
    calibrated(device, 48.4, 48.5, 48.3)
    assert state(device) == ("active", ""), "whoever checked it again has taken the new level for good"
    calibrated(device, 46.0, 46.0)
    assert state(device) == ("quarantined", "drift")


def test_short_kernels_wide_intervals_and_other_toolchains_do_not_drift():
    device, bench = gpu(), Store()
    judge(device, bench, 10.0, 10.8, 10.8, 10.8)  # eight per cent, but less than a microsecond
    assert not bench.forgotten
    first, second = measured(device, 447.0, "other"), measured(device, 470.0, "other")
    Measurement.objects.filter(evaluation=second, subject="eager").update(low_us=440.0)
    assert not eager_drift(second).far
    Evaluation.objects.filter(pk=first.pk).update(toolchain="torch 2.12")
    assert eager_drift(second) is None


def test_another_gpu_in_the_same_place_starts_anew():
    before, after = (Gpu(0, uuid, "NVIDIA H200", "sm_90", 143771, "580.1") for uuid in ("GPU-a", "GPU-b"))
    devices_sync(lister=lambda: [before])
    device = Device.objects.get(name="cuda:0")
    assert device.baselines_at is None
    first = measured(device, 447.0)
    devices_sync(lister=lambda: [before])
    devices_sync(lister=lambda: [after])
    device.refresh_from_db()
    assert device.baselines_at is not None and device.baselines_at > first.created_at
    assert eager_drift(measured(device, 900.0)) is None


def test_times_that_were_given_up_are_measured_again_also_by_a_process_that_knew_them(tmp_path):
    spec, store = ProblemSpec("class Model: ..."), Baselines(tmp_path / "baselines")
    job = Job("one", spec, "class ModelNew: ...")
    timing = Timing(Subject.COMPILE, Basis.MEASURED, "cuda_events", (2.0,), 2.0, 2.0, 2.0)
    known = KnownTimes(lambda: store)
    passed = Outcome(Verdict.PASS, stage="timing", loads=True, environment={"baselines": {"compile": "measured"}})
    known.remember(job, dataclasses.replace(passed, timings=(timing,)))
    assert known.time(spec, timing.subject) == timing and not known.unknown(spec, timing.subject)
    store.forget_all()
    assert known.time(spec, timing.subject) is None and known.unknown(spec, timing.subject)
    alone = dataclasses.replace(timing, subject=Subject.CANDIDATE)
    known.remember(job, dataclasses.replace(passed, timings=(alone,)))
    assert not known.unknown(spec, timing.subject), "it cannot be compiled: nobody tries again"
