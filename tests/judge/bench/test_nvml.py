"""GPUs, their readings and their health as NVML tells them, with the machine's GPUs made up."""

from __future__ import annotations

import sys
import threading
from types import SimpleNamespace

import pynvml
import pytest

from judge.bench.device import clocks, nvml
from judge.bench.device.nvml import (
    GpuHealth,
    GpuReading,
    entry_of,
    gpu_health,
    gpu_readings,
    gpus_here,
    parts,
    using,
    within,
)
from judge.bench.processes.forkserver import clean_environment
from tests.judge.bench.fake_nvml import Board, FakeNvml

H100 = Board()
A10 = Board("GPU-bbbb-2", "NVIDIA A10G", (8, 6), 23028)
L4 = Board("GPU-bbcc-3", "NVIDIA L4", (8, 9), 23034)
FIRST, SECOND = (
    Board(f"MIG-{letter * 4}-9", f"NVIDIA H200 MIG {size}", total_mib=mib, used_mib=77)
    for letter, size, mib in (("c", "1g.18gb", 16384), ("d", "3g.71gb", 71168))
)
SPLIT = Board(
    "GPU-eeee-5", "NVIDIA H200", total_mib=143771, clock=1755, temperature=64, errors=3, reasons=2, use=None,
    divided=True, instances=[None, FIRST, SECOND],
)  # fmt: skip
NO_LIBRARY, NO_DRIVER = pynvml.NVML_ERROR_LIBRARY_NOT_FOUND, pynvml.NVML_ERROR_DRIVER_NOT_LOADED


@pytest.fixture(autouse=True)
def _all_visible(monkeypatch):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


def test_a_gpu_is_described_in_the_units_of_its_row() -> None:
    fake = FakeNvml(A10, H100)
    first, second = gpus_here(fake)
    assert (first.ordinal, first.uuid, first.title, first.arch) == (0, "GPU-bbbb-2", "NVIDIA A10G", "sm_86")
    assert (second.ordinal, second.memory_mb, second.driver, second.arch) == (1, 81559, "570.12", "sm_90")
    assert fake.open == 0  # what was started was ended


@pytest.mark.parametrize(
    ("visible", "titles"),
    [
        (None, ["NVIDIA H100 80GB HBM3", "NVIDIA A10G", "NVIDIA L4"]),
        ("", []),
        ("-1", []),
        ("1,0", ["NVIDIA A10G", "NVIDIA H100 80GB HBM3"]),
        (" 2 , 1", ["NVIDIA L4", "NVIDIA A10G"]),
        ("GPU-bbbb", ["NVIDIA A10G"]),
        ("GPU-bbcc-3,GPU-aaaa", ["NVIDIA L4", "NVIDIA H100 80GB HBM3"]),
        ("GPU-bb", []),  # of two
        ("GPU-", []),
        ("bbbb", []),
        ("1,7,0", ["NVIDIA A10G"]),
        ("1,GPU-none,0", ["NVIDIA A10G"]),
        ("0,1,GPU-aaaa-1", []),  # the first one twice
    ],
)
def test_cuda_visible_devices_numbers_as_cuda_does(monkeypatch, visible, titles) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    gpus = gpus_here(FakeNvml(H100, A10, L4))
    assert [gpu.title for gpu in gpus] == titles and [gpu.ordinal for gpu in gpus] == list(range(len(titles)))


@pytest.mark.parametrize(
    ("visible", "uuids"),
    [
        (None, ["GPU-aaaa-1", "MIG-cccc-9", "MIG-dddd-9"]),
        ("1", ["MIG-cccc-9"]),
        ("GPU-eeee", ["MIG-cccc-9"]),
        ("MIG-dddd-9,MIG-cccc-9", ["MIG-dddd-9", "MIG-cccc-9"]),
        ("MIG-d", ["MIG-dddd-9"]),
        ("MIG-", []),
        ("MIG-dddd,0", ["MIG-dddd-9", "GPU-aaaa-1"]),
        ("1,MIG-cccc", []),
    ],
)
def test_the_instances_of_a_divided_gpu_are_devices(monkeypatch, visible, uuids) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = {gpu.uuid: gpu for gpu in gpus_here(FakeNvml(H100, SPLIT))}
    assert list(found) == uuids
    if "MIG-dddd-9" in found:
        one = found["MIG-dddd-9"]
        assert (one.title, one.memory_mb, one.arch) == ("NVIDIA H200 MIG 3g.71gb", 71168, "sm_90")


def test_a_divided_gpu_without_instances_is_no_device() -> None:
    assert gpus_here(FakeNvml(Board(divided=True))) == []
    assert [gpu.uuid for gpu in gpus_here(FakeNvml(Board(divided=False, instances=[FIRST])))] == ["GPU-aaaa-1"]


def test_a_gpu_that_fell_off_the_bus_is_left_out_and_the_others_keep_their_index(monkeypatch) -> None:
    fake = FakeNvml(Board(lost=True), A10)
    assert [gpu.uuid for gpu in gpus_here(fake)] == ["GPU-bbbb-2"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert [(gpu.ordinal, gpu.uuid) for gpu in gpus_here(fake)] == [(0, "GPU-bbbb-2")]


@pytest.mark.parametrize("refuses", [NO_LIBRARY, NO_DRIVER])
def test_without_library_or_driver_there_is_no_gpu_and_no_error(monkeypatch, refuses) -> None:
    fake = FakeNvml(H100, refuses=refuses)
    assert gpus_here(fake) == [] and gpu_readings(fake) == {} and gpu_health("GPU-aaaa-1", fake) == GpuHealth(True)
    assert fake.open == 0


def test_without_the_package_torch_is_asked_for_gpus_and_readings_are_absent(monkeypatch) -> None:
    row = SimpleNamespace(
        uuid="aaaa-1", name="NVIDIA H100", major=9, minor=0, total_memory=(81559 << 20) + 5, multi_processor_count=132
    )
    part = SimpleNamespace(uuid="cccc-9", name="NVIDIA H200 MIG 1g.18gb", major=9, minor=0, total_memory=16384 << 20)
    rows = [row, part]
    cuda = SimpleNamespace(device_count=lambda: len(rows), get_device_properties=lambda number: rows[number])
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(cuda=cuda))
    monkeypatch.delenv("CUDA_DEVICE_ORDER", raising=False)
    first, second = gpus_here(None)
    assert (first.ordinal, first.uuid, first.arch, first.memory_mb, first.driver) == (
        0, "GPU-aaaa-1", "sm_90", 81559, "",
    )  # fmt: skip
    assert (second.ordinal, second.uuid) == (1, "MIG-cccc-9")
    assert nvml.os.environ["CUDA_DEVICE_ORDER"] == "PCI_BUS_ID"
    monkeypatch.delenv("CUDA_DEVICE_ORDER")
    assert gpu_readings(None) == {} and gpu_health("GPU-aaaa-1", None) == GpuHealth(True)
    monkeypatch.setitem(sys.modules, "torch", None)
    assert gpus_here(None) == []


def test_readings_are_in_the_units_of_the_page() -> None:
    busy = Board(used_mib=70123, use=97, temperature=64, clock=1755, reasons=4)
    deaf = Board("GPU-dead", used_mib=None, use=None, temperature=None, clock=None, most=None, reasons=None)
    held = Board("GPU-held", reasons=6)
    found = gpu_readings(FakeNvml(busy, deaf, held))
    assert found["GPU-aaaa-1"] == GpuReading(97, 70123, 81559, 64, 1755, 1980, held=False)
    assert found["GPU-dead"] == GpuReading(None, None, None, None, None, None, held=None)
    assert found["GPU-held"].held is True and list(found) == ["GPU-aaaa-1", "GPU-dead", "GPU-held"]


def test_an_instance_shows_its_own_memory_and_the_clock_and_heat_of_its_gpu() -> None:
    found = gpu_readings(FakeNvml(SPLIT))
    assert found["MIG-cccc-9"] == GpuReading(None, 77, 16384, 64, 1755, 1980, held=True)
    assert found["MIG-dddd-9"].memory_total == 71168 and list(found) == ["MIG-cccc-9", "MIG-dddd-9"]


@pytest.mark.parametrize("old", [False, True], ids=["an old driver", "an old pynvml"])
def test_questions_that_are_unknown_to_driver_or_package_have_other_names_or_no_answer(old) -> None:
    renamed = FakeNvml(Board(reasons=2), lacks=("nvmlDeviceGetCurrentClocksEventReasons",), old=old)
    assert gpu_readings(renamed)["GPU-aaaa-1"].held is True
    names = ("nvmlDeviceGetMigMode", "nvmlDeviceGetTotalEccErrors", "nvmlDeviceGetUtilizationRates")
    assert gpu_readings(FakeNvml(Board(), lacks=("nvmlMemory_v2",)))["GPU-aaaa-1"].memory_used == 500
    without = FakeNvml(Board(use=5), lacks=names, old=old)
    assert gpu_readings(without)["GPU-aaaa-1"].use is None and gpu_health("GPU-aaaa-1", without) == GpuHealth(True)


def test_health_is_read_for_the_gpu_asked_for_and_silence_says_nothing() -> None:
    fake = FakeNvml(Board("GPU-aaaa"), Board("GPU-bbbb", errors=None), Board("GPU-cccc", errors=17), Board(lost=True))
    assert gpu_health("GPU-aaaa", fake) == GpuHealth(True, 0)
    assert gpu_health("GPU-cccc", fake) == GpuHealth(True, 17)
    assert gpu_health("GPU-bbbb", fake) == GpuHealth(True, None)
    assert gpu_health("GPU-dddd", fake) == gpu_health("GPU-aaaa-1", fake) == GpuHealth(False)
    assert gpu_health("MIG-dddd-9", FakeNvml(SPLIT)) == GpuHealth(True, 3)  # errors are counted for the whole GPU
    assert gpu_health("GPU-aaaa", FakeNvml()) == GpuHealth(True)


@pytest.mark.parametrize(
    ("visible", "ordinal", "entry"),
    [
        (None, 0, "GPU-aaaa-1"), (None, 2, "MIG-dddd-9"), ("MIG-dddd-9,0", 1, "GPU-aaaa-1"), ("1,0", 0, "MIG-cccc-9"),
        ("0", 1, ""), (None, 3, ""),
    ],
)  # fmt: skip
def test_a_child_is_shown_its_device_by_uuid(monkeypatch, visible, ordinal, entry) -> None:
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert entry_of(ordinal, FakeNvml(H100, SPLIT)) == entry


@pytest.mark.parametrize("library", [None, FakeNvml(refuses=NO_LIBRARY)], ids=["no package", "no driver"])
@pytest.mark.parametrize(
    ("visible", "ordinal", "entry"),
    [(None, 0, "0"), (None, 3, "3"), ("2, GPU-bbbb", 1, "GPU-bbbb"), ("2", 0, "2"), ("2", 1, ""), ("", 0, "")],
)
def test_a_child_is_shown_its_entry_where_the_driver_tells_no_uuid(monkeypatch, library, visible, ordinal, entry):
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    assert entry_of(ordinal, library) == entry


def test_the_environment_of_a_child_names_the_gpu_that_its_name_means(monkeypatch) -> None:
    """ "cuda:0" is the first visible GPU, not the first of the machine."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,1")
    monkeypatch.setattr("judge.bench.processes.forkserver.entry_of", lambda ordinal: entry_of(ordinal, None))
    shown = [clean_environment(name, interpret=False)["CUDA_VISIBLE_DEVICES"] for name in ("cuda:0", "cuda:1", "cuda")]
    assert shown == ["3", "1", "3"]
    assert clean_environment("cpu", interpret=False)["CUDA_VISIBLE_DEVICES"] == ""


def test_a_driver_that_hangs_keeps_one_thread_and_nobody_waits_for_it() -> None:
    end = threading.Event()
    started = threading.active_count()
    assert within(0.01, end.wait, None) is None
    assert within(0.01, lambda: pytest.fail("asked beside it"), "busy") == "busy"
    assert threading.active_count() == started + 1
    end.set()
    assert within(30.0, lambda: "answer", None) == "answer"


def test_a_session_ends_when_a_question_fails() -> None:
    fake = FakeNvml(H100)
    with pytest.raises(ZeroDivisionError), using(fake) as ready:
        assert ready is fake and [part.uuid for part in parts(fake)] == ["GPU-aaaa-1"]
        raise ZeroDivisionError
    assert fake.open == 0


@pytest.mark.parametrize("uuid", ["aaaa-1", "dddd-9"])
def test_the_referees_clock_is_that_of_the_whole_gpu(monkeypatch, uuid) -> None:
    monkeypatch.setattr(clocks.torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid=uuid))
    whole = Board(clock=1755, reasons=0x4 | 0x3)
    clock = clocks.SmClock("cuda:0", FakeNvml(whole, SPLIT))
    assert (clock.unavailable, clock.mhz()) == ("", 1755)
    assert clock.throttle_reasons() == (4 if uuid == "aaaa-1" else 0)  # idle and set clocks are no throttling


def test_without_nvml_the_referee_has_no_clock_and_says_why(monkeypatch) -> None:
    monkeypatch.setattr(clocks.torch.cuda, "get_device_properties", lambda device: SimpleNamespace(uuid="ffff"))
    found = {}
    for library in (None, FakeNvml(H100, refuses=NO_DRIVER), FakeNvml(H100)):
        clock = clocks.SmClock("cuda:0", library)
        assert (clock.mhz(), clock.throttle_reasons()) == (0, 0)
        found[library] = clock.unavailable
    reasons = ["nvidia-ml-py is not installed", "Driver Not Loaded", "the driver lists no GPU ffff"]
    assert list(found.values()) == reasons
