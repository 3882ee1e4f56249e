"""What the baseline's bursts tell about a burst's own cost, and when its slowness is nobody's fault."""

from __future__ import annotations

import dataclasses
import random
from collections import defaultdict
from types import SimpleNamespace

import pytest

from judge.bench.device.clocks import LONGEST_HOLD_US
from judge.bench.timing import bursts
from judge.bench.timing.bursts import Burst, _supported
from judge.bench.timing.stage import Measured, TimingStage
from judge.bench.timing.trusted import GPU, Trusted
from judge.values import Basis, JudgeError, Speedup, Subject, Timing

NOTHING_US, BESIDE_US = 3.0, 4.0


class Side:
    """A subject whose kernels take `kernel_us`; a burst costs BESIDE_US more per call, its own clock NOTHING_US."""

    def __init__(self, kernel_us: float) -> None:
        self.kernel_us = kernel_us
        self.reference = SimpleNamespace(device="cuda:0")
        self.side = SimpleNamespace(samples_us=[kernel_us + NOTHING_US])
        self.rng = random.Random(1)
        self.seen: dict[int, list[Burst]] = defaultdict(list)

    def burst(self, calls: int, *, graph: bool) -> None:
        self.seen[calls].append(Burst(1.0, calls * (self.kernel_us + BESIDE_US)))

    def slope(self, copying: dict[int, float]) -> float:
        return self.kernel_us + BESIDE_US

    def dearest_us(self) -> float:
        return 20.0

    def written_us(self, method: str) -> float:
        return 1.2


@pytest.mark.parametrize(("told", "supported"), [(1.0, True), (0.5, False)], ids=["honest", "half of it"])
def test_a_call_of_few_microseconds_is_read_without_what_the_burst_and_the_clock_add(monkeypatch, told, supported):
    monkeypatch.setattr(bursts, "wait_until_quiet", lambda device: 0.0)
    monkeypatch.setattr(bursts, "is_quiet", lambda device: True)
    terms = dataclasses.replace(GPU, nothing_us=NOTHING_US, most=12)
    found = _supported([Side(6.0), Side(9.0)], 96, "graph_burst", told * (6.0 + NOTHING_US), terms)
    assert found.supported is supported and found.call_us == pytest.approx(6.0)


class Stage(TimingStage):
    """A candidate of 10 us beside a baseline of 9 ms in the pairs and 3 ms in bursts."""

    def __init__(self, host_us: float) -> None:
        self.device = "cuda:0"
        self._sides = {"eager": SimpleNamespace(samples_us=[9000.0], host_us=[host_us])}

    def measure(self, *, suffix: str = "", rival: bool = False) -> Measured:
        return measured()

    def _trusted(self, claimed_us: float) -> Trusted:
        return Trusted(10.0, "graph_burst", 96, baseline_us=3000.0)


def measured() -> Measured:
    timing = Timing(Subject.CANDIDATE, Basis.MEASURED, "cuda_events", (10.0,) * 4, 10.0, 9.0, 11.0)
    return Measured([timing], speedup=Speedup(2.0, 1.9, 2.1, 16, Basis.MEASURED))


def test_a_baseline_that_waits_for_its_launches_does_not_mean_a_busy_gpu():
    found = Stage(3 * LONGEST_HOLD_US).trust(measured())
    assert [finding.code for finding in found.findings] == ["time.trusted"]


def test_a_baseline_whose_launches_were_queued_in_time_does():
    with pytest.raises(JudgeError, match="the GPU is not quiet"):
        Stage(0.1 * LONGEST_HOLD_US).trust(measured())
