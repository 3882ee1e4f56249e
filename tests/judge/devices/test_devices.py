"""Devices as the NVIDIA driver tells them, and what a missing one is told."""

from __future__ import annotations

import pytest

from judge.bench.device.nvml import Gpu
from judge.devices import benches
from judge.devices.models import Device
from judge.devices.services import DeviceMissing, device_get, devices_sync

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
    device = Device(name="interpreter", kind="interpreter", arch="sm_80")
    bench = benches.bench_for(device)
    assert benches.bench_for(device) is bench and bench.options["target"] == "sm_80"
    benches.close_benches()
    benches.close_benches()
    assert closed == ["interpreter"]


def test_nothing_is_judged_on_an_external_device() -> None:
    with pytest.raises(ValueError, match="imported numbers"):
        benches.bench_for(Device(name="external:A", kind="external"))
