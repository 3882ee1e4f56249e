"""The judge's clocks, as far as they can be checked without a GPU."""

from __future__ import annotations

import os
import time
from contextlib import contextmanager
from types import SimpleNamespace

import pytest
import torch

from judge.bench.device import clocks
from judge.bench.device.bandwidth import bandwidth_bytes_per_us, graph_copy_us, nominal_bytes_per_us
from judge.bench.device.clocks import SmClock, WallClock, left_over_us, make_clock, quiet_and_alone, wait_until_quiet
from judge.bench.device.gpu_lock import GpuLock, GpuUse
from judge.bench.device.warm_up import highest_mhz, sm_mhz, warm_up
from judge.bench.runner import Bench

on_a_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no NVIDIA GPU here")


@contextmanager
def alone_on(device: str):
    """The GPU, while none of the benches that other tests have uses it."""
    fd = Bench(device).gpu_lock()
    try:
        lock = GpuLock(fd)
        with lock.shared(), lock.alone():
            yield
    finally:
        os.close(fd)


def awake(device: str) -> None:
    """A GPU whose clock is up."""


def test_measuring_waits_until_tiny_kernels_are_quick_again():
    told = iter([32.0, 31.0, 2.1])
    waited_s = wait_until_quiet("cuda:0", lambda device: next(told), awake)
    assert waited_s >= 0.1 and next(told, None) is None


def test_a_gpu_that_never_gets_quiet_is_not_waited_for_for_ever(monkeypatch):
    slept = [100.0]
    monkeypatch.setattr(clocks.time, "sleep", slept.append)
    monkeypatch.setattr(clocks.time, "monotonic", lambda: sum(slept))
    waited_s = wait_until_quiet("cuda:0", lambda device: 40.0, awake)
    assert clocks.QUIET_WAIT_S <= waited_s < clocks.QUIET_WAIT_S + 0.1


class Lock:
    """Writes down how the GPU is held."""

    def __init__(self) -> None:
        self.use, self.said, self.makes = GpuUse(), [], False

    @contextmanager
    def alone(self, *, puts_off: bool = False):
        self.said.append("alone, contexts put off" if puts_off else "alone")
        yield
        self.said.append("shared")

    @contextmanager
    def left(self):
        self.said.append("left")
        yield
        self.said.append("back")

    def contexts_are_made(self) -> bool:
        return self.makes

    @contextmanager
    def without_contexts(self):
        self.said.append("no contexts")
        self.makes = False
        yield


@pytest.mark.parametrize(("noisy", "cycles"), [(0, 0), (2, 2), (1000, 6)])
def test_others_may_use_a_gpu_that_is_not_quiet_until_it_is_or_long_enough(monkeypatch, noisy, cycles):
    lock, told, now = Lock(), iter([False] * noisy + [True]), [0.0]
    monkeypatch.setattr(clocks, "QUIET_PAUSE_S", 1.0)

    def sleep(seconds: float) -> None:
        assert lock.said[-1] == "left"
        now[0] += seconds

    with quiet_and_alone(lock, "cuda:0", lambda device: next(told), awake, lambda: now[0], sleep) as waited_s:
        lock.said.append("measured")
    assert lock.said == ["alone", "shared", "left", "back"] * cycles + ["alone", "measured", "shared"]
    assert waited_s == lock.use.quiet_s == pytest.approx(clocks.QUIET_PAUSE_S * cycles)


def test_contexts_in_the_making_are_waited_for_where_the_gpu_is_not_quiet_beside_them():
    for quiet, said in ((True, []), (False, ["no contexts"])):
        lock, told = Lock(), iter([quiet, True])
        lock.makes = True
        with quiet_and_alone(lock, "cuda:0", lambda device, told=told: next(told), awake):
            lock.said.append("measured")
        assert lock.said == ["alone", *said, "measured", "shared"], "nobody else is let in for that"


def test_the_processor_is_not_asked_for_quiet():
    assert wait_until_quiet("cpu", lambda device: pytest.fail("asked")) == 0.0


def test_the_processor_has_a_wall_clock_that_reads_more_than_nothing():
    clock = make_clock("cpu")
    assert isinstance(clock, WallClock)
    clock.start(flush=True)
    assert clock.stop() > 0


class Cuda:
    """In place of torch's, with a host clock on which a microsecond passes each time that it is read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.did: list[str] = []
        self.held_us: list[float] = []
        self.late = False  # the GPU began before all was queued
        now = iter(range(0, 10**9, 1000))
        cuda = clocks.torch.cuda
        monkeypatch.setattr(cuda, "get_device_properties", lambda device: SimpleNamespace(L2_cache_size=64))
        monkeypatch.setattr(cuda, "Event", lambda enable_timing: self)
        monkeypatch.setattr(cuda, "_sleep", self.hold)
        monkeypatch.setattr(cuda, "synchronize", lambda device: self.did.append("wait for the device"))
        monkeypatch.setattr(clocks.torch, "zeros", lambda *shape, **given: None)
        monkeypatch.setattr(clocks.time, "perf_counter_ns", lambda: next(now))

    def hold(self, cycles: int) -> None:
        self.did.append("hold")
        self.held_us.append(cycles / clocks.CYCLES_PER_US)

    def record(self) -> None:
        self.did.append("record")

    def query(self) -> bool:
        return self.late

    def synchronize(self) -> None:
        self.did.append("wait for the stream")

    def elapsed_time(self, other: object) -> float:
        return 0.25


@pytest.mark.parametrize("hold", [True, False])
def test_a_clock_that_counts_gaps_starts_on_an_idle_gpu_and_reads_this_process_s_time(monkeypatch, hold):
    did = (cuda := Cuda(monkeypatch)).did
    clock = clocks.CudaClock("cuda:0")
    clock.start(flush=False, hold=hold)
    assert did == ["hold" if hold else "wait for the device", "record"] and len(cuda.held_us) == hold
    read_us = clock.stop()
    assert (read_us, did[2:4]) == (
        (250.0, ["record", "wait for the stream"]) if hold else (2.0, ["record", "wait for the device"])
    )
    assert clock.host_us == 1.0


def test_the_gpu_is_held_twice_as_long_after_it_began_too_early_and_then_less_each_time(monkeypatch):
    cuda, clock = Cuda(monkeypatch), clocks.CudaClock("cuda:0")
    for cuda.late in (True, True, False, False, *[True] * 20):
        clock.start(flush=False)
        clock.stop()
    first = clocks.HOLD_MARGIN_US
    assert cuda.held_us[:5] == pytest.approx([first, 2 * first, 4 * first, 2.8 * first, 1.96 * first], rel=0.01)
    assert cuda.held_us[-1] == pytest.approx(clocks.LONGEST_HOLD_US, rel=0.01)


@pytest.mark.parametrize(
    ("waits", "left"),
    [([6.0], 0.0), ([36.0, 41.0, 35.0, 50.0], 0.0), ([236.0, 36.0, 44.0, 61.0], 200.0), ([80.0, 7.0, 5.0, 9.0], 75.0)],
    ids=["nothing left", "a busy processor", "work on another stream, a busy processor", "work on another stream"],
)
def test_work_that_is_left_is_told_from_a_busy_processor(waits, left):
    told = iter(waits)
    assert left_over_us(lambda: next(told)) == left and next(told, None) is None


def test_without_a_gpu_there_is_no_sm_clock():
    clock = SmClock("cpu")
    assert (clock.mhz(), clock.throttle_reasons()) == (0, 0) and clock.unavailable == "no GPU"


@on_a_gpu
@pytest.mark.cuda
def test_an_idle_gpu_is_woken_and_its_clock_read_without_nvml():
    nvml = SmClock("cuda:0")
    torch.zeros(1, device="cuda:0")
    with alone_on("cuda:0"):  # a clock that is read while others compute is too low
        time.sleep(1)
        warm_up("cuda:0")
        assert sm_mhz("cuda:0") == pytest.approx(nvml.mhz() or highest_mhz("cuda:0"), rel=0.1)
        assert warm_up("cuda:0") == 0.0  # it is awake


@on_a_gpu
@pytest.mark.cuda
def test_a_graphs_copy_costs_more_than_nothing_and_less_than_a_launch():
    assert 0.3 < graph_copy_us("cuda:0") < 15.0


@on_a_gpu
@pytest.mark.cuda
def test_the_memory_is_not_seen_to_be_faster_than_its_clock_allows():
    seen, nominal = bandwidth_bytes_per_us("cuda:0"), nominal_bytes_per_us("cuda:0")
    assert 0.5 * nominal < seen <= 1.05 * nominal
