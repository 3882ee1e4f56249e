"""An idle GPU is woken before anything is measured."""

from __future__ import annotations

import pytest

from judge.bench.audit import physics
from judge.bench.device import clocks
from judge.bench.device import warm_up as rousing
from judge.bench.device.warm_up import warm_up


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch):
    monkeypatch.setattr(rousing, "_capped", {})


def test_a_gpu_that_idles_works_until_its_clock_is_up():
    clock, worked = iter([345.0, 345.0, 900.0, 1980.0]), []
    spent_s = warm_up("cuda:0", read=lambda device: next(clock), highest=lambda device: 1980.0, work=worked.append)
    assert len(worked) == 3 and next(clock, None) is None and spent_s > 0


def test_a_gpu_that_is_awake_is_left_alone():
    asleep = pytest.fail
    assert warm_up("cuda:0", read=lambda device: 1900.0, highest=lambda device: 1980.0, work=asleep) == 0.0


def test_a_gpu_that_is_held_below_its_highest_clock_is_waited_for_once(monkeypatch):
    monkeypatch.setattr(rousing, "WARM_UP_S", 0.05)
    worked: list[str] = []
    assert warm_up("cuda:0", read=lambda device: 1200.0, highest=lambda device: 1980.0, work=worked.append) >= 0.05
    assert worked
    assert warm_up("cuda:0", read=lambda device: 1200.0, highest=lambda device: 1980.0, work=pytest.fail) == 0.0
    assert rousing._capped == {"cuda:0": pytest.approx(0.9 * 1200)}


def test_a_driver_that_names_no_clock_costs_one_reading():
    assert warm_up("cuda:0", read=lambda device: 1000.0, highest=lambda device: 0.0, work=pytest.fail) == 0.0


def test_the_processor_is_not_woken():
    assert warm_up("cpu", read=pytest.fail) == 0.0


def test_quiet_is_asked_of_a_gpu_that_is_awake():
    told = []
    clocks.wait_until_quiet("cuda:0", lambda device: told.append("quiet?") or 2.0, lambda device: told.append("awake"))
    assert told == ["awake", "quiet?"]


@pytest.mark.parametrize(("seen", "nominal"), [(0.74e6, 4.8e6), (4.2e6, 0.0), (4.2e6, 4.8e6)])
def test_nobody_is_suspect_because_others_used_the_memory(monkeypatch, seen, nominal):
    """800 MB in 308 us, as an honest kernel did on an H200 beside others."""
    monkeypatch.setattr(physics, "bandwidth_bytes_per_us", lambda device: seen)
    monkeypatch.setattr(physics, "nominal_bytes_per_us", lambda device: nominal)
    assert physics.MARGIN * physics.least_us(805_300_000, 0, 0, physics.peak_bytes_per_us("cuda:0")) < 307.5
