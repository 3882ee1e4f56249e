"""Devices as the NVIDIA driver tells them, and what a missing one is told."""

from __future__ import annotations

import pytest

from judge.bench.device.nvml import Gpu
from judge.devices import benches
from judge.devices.models import Device
from judge.devices.services import FAULTS, DeviceMissing, device_get, devices_sync, faults_clear, faults_count
from judge.values import JudgeError

GPUS = [
    Gpu(0, "GPU-aaaa-1", "NVIDIA H100 80GB HBM3", "sm_90", 81559, "570.12"),
    Gpu(1, "GPU-bbbb-2", "NVIDIA A10G", "sm_86", 23028, "570.12"),
]


@pytest.mark.django_db
def test_the_interpreter_is_always_there(settings) -> None:
    (device,) = devices_sync(lister=list)  # the compile-only one judges nothing
    assert (device.name, device.kind, device.arch) == ("interpreter", "interpreter", settings.JUDGE_TARGET)


@pytest.mark.django_db
def test_gpus_become_devices_and_a_second_sync_only_refreshes() -> None:
    first = devices_sync(lister=lambda: GPUS)
    again = devices_sync(lister=lambda: GPUS)
    assert [row.pk for row in again] == [row.pk for row in first]
    h100 = Device.objects.get(name="cuda:0")
    assert (h100.arch, h100.title, h100.facts["memory_mb"]) == ("sm_90", "NVIDIA H100 80GB HBM3", 81559)


@pytest.mark.django_db
def test_faults_are_counted_by_device_and_anew_after_the_judge_worked() -> None:
    one, other, *_ = devices_sync(lister=lambda: GPUS)
    assert [faults_count(one) for _ in range(FAULTS)] == [False] * (FAULTS - 1) + [True] and not faults_count(other)
    faults_clear(one)
    assert list(Device.objects.filter(pk__in=(one.pk, other.pk)).order_by("pk").values_list("faults", flat=True)) == [
        0,
        1,
    ]
    assert not faults_count(one)


@pytest.mark.django_db
def test_a_missing_gpu_is_told_what_is_there_and_how_one_appears() -> None:
    devices_sync(lister=list)
    with pytest.raises(DeviceMissing, match=r"no device 'cuda:0'\. Known: interpreter\. .*nvidia-smi"):
        device_get(name="cuda:0")


def test_a_process_has_one_bench_per_device_and_closes_it(monkeypatch) -> None:
    closed = []

    class FakeBench:
        def __init__(self, name: str, **options: object) -> None:
            self.name, self.options = name, options

        def close(self) -> None:
            closed.append(self.name)

    monkeypatch.setattr(benches, "Bench", FakeBench)
    monkeypatch.setattr(benches, "_open", {})
    monkeypatch.setattr(benches, "prove", lambda bench, record: None)
    device = Device(name="interpreter", kind="interpreter", arch="sm_80")
    bench = benches.bench_for(device)
    assert benches.bench_for(device) is bench and bench.options["target"] == "sm_80"
    benches.close_benches()
    benches.close_benches()
    assert closed == ["interpreter"]


def test_nothing_is_judged_on_an_external_device() -> None:
    with pytest.raises(ValueError, match="imported numbers"):
        benches.bench_for(Device(name="external:A", kind="external"))


def test_a_bench_that_cannot_judge_a_known_kernel_is_closed_and_tried_again(monkeypatch, settings, tmp_path) -> None:
    opened, closed, records = [], [], []

    class FakeBench:
        def __init__(self, name: str, **options: object) -> None:
            opened.append(name)

        def close(self) -> None:
            closed.append(self)

    def prove(bench: object, record: object) -> None:
        records.append(record)
        if len(records) == 1:
            raise JudgeError("this machine cannot judge now")

    settings.DATA_DIR = tmp_path
    for name, value in {"Bench": FakeBench, "_open": {}, "prove": prove}.items():
        monkeypatch.setattr(benches, name, value)
    device = Device(name="interpreter", kind="interpreter", arch="sm_80")
    with pytest.raises(JudgeError, match="cannot judge now"):
        benches.bench_for(device)
    assert len(closed) == 1
    assert benches.bench_for(device) is benches.bench_for(device) and len(opened) == 2 == len(records)
    assert set(records) == {tmp_path / "artefacts" / "proven.json"} and len(closed) == 1
