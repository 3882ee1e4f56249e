"""The judge's clocks, as far as they can be checked without a GPU."""

from __future__ import annotations

import pytest

from judge.bench.device import clocks
from judge.bench.device.clocks import SmClock, WallClock, wait_until_quiet


def awake(device: str) -> None:
    """A GPU whose clock is up."""


def test_measuring_waits_until_tiny_kernels_are_quick_again():
    told = iter([32.0, 31.0, 2.1])
    waited_s = wait_until_quiet("cuda:0", lambda device: next(told), awake)
    assert waited_s >= 0.1 and next(told, None) is None


def test_a_gpu_that_never_gets_quiet_is_not_waited_for_for_ever(monkeypatch):
    monkeypatch.setattr(clocks, "QUIET_WAIT_S", 0.2)
    assert 0.2 <= wait_until_quiet("cuda:0", lambda device: 40.0, awake) < 2.0


def test_the_processor_is_not_asked_for_quiet():
    assert wait_until_quiet("cpu", lambda device: pytest.fail("asked")) == 0.0


def test_a_wall_clock_reads_more_than_nothing():
    clock = WallClock()
    clock.start(flush=True)
    assert clock.stop() > 0


def test_without_a_gpu_there_is_no_sm_clock():
    clock = SmClock("cpu")
    assert (clock.mhz(), clock.throttle_reasons()) == (0, 0) and clock.unavailable == "no GPU"
