"""Intervals over pairs of processes: what they are of, and how often a kernel wins against itself."""

from __future__ import annotations

import json
import math
import random
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.deciding import confirming
from judge.bench.device import luck
from judge.bench.device.luck import Luck, apart, contradictory, luck_of, over_processes, student
from judge.bench.device.statistics import paired_speedup, timing_of, unpaired_speedup
from judge.bench.timing.pairs import learned, published
from judge.bench.timing.stage import Measured, TimingStage
from judge.values import Basis, Finding, SpeedCall, Speedup, Subject, Timing


def pair(value: float, half: float = 0.001, call: SpeedCall = SpeedCall.NONE, n: int = 16) -> Speedup:
    return Speedup(value, value / math.exp(half), value * math.exp(half), n, Basis.MEASURED, Subject.INCUMBENT, call)


@pytest.mark.parametrize(
    ("df", "quantile"), [(1, 318.31), (2, 22.327), (3, 10.215), (6, 5.2076), (8, 4.5008), (10, 4.1437), (40, 3.3069)]
)
def test_the_quantiles_of_student_are_those_of_the_tables(df, quantile):
    assert student(float(df)) == pytest.approx(quantile, rel=1e-3)


def test_what_another_process_wrote_is_read_again_or_is_no_luck():
    assert Luck.read(json.loads(json.dumps(asdict(Luck(6, 0.01))))) == Luck(6, 0.01)
    for row in (
        None,
        [],
        {"df": 6},
        {"df": 0, "variance": 0.01},
        {"df": 6, "variance": "much"},
        {"df": 6, "variance": 10**400},
    ):
        assert Luck.read(row) is None


def test_one_pair_has_the_interval_of_what_is_known_before():
    found = over_processes([pair(2.0, half=0.0)], Luck(6, 0.01), 100.0)
    assert (found.value, found.n) == (pytest.approx(2.0), 16)
    assert (
        math.log(found.high / found.value)
        == pytest.approx(0.1 * student(6.0))
        == pytest.approx(math.log(found.value / found.low))
    )


def test_several_pairs_tell_their_spread_and_what_is_within_one_comes_on_top():
    pairs = [pair(1.0, half=0.0), pair(1.1, half=0.0), pair(1.21, half=0.0)]
    found = over_processes(pairs, Luck(6, 0.01), 100.0)
    assert (found.value, found.n) == (pytest.approx(1.1), 48)
    variance = (2 * math.log(1.1) ** 2 + 6 * 0.01) / 8
    assert math.log(found.high / found.value) == pytest.approx(student(8.0) * math.sqrt(variance / 3))
    alone = over_processes(pairs, Luck(6, 0.005), 100.0)  # they differ by more than what is known explains
    assert math.log(alone.high / 1.1) == pytest.approx(student(2.0) * math.log(1.1) / math.sqrt(3))
    wide = over_processes([pair(2.0, half=0.3)], Luck(6, 0.0), 100.0)
    assert math.log(wide.high / 2.0) == pytest.approx(0.3 / luck.normal() * student(6.0))


def test_the_call_is_that_of_the_interval_over_pairs():
    pairs = [pair(1.2), pair(1.21), pair(1.19)]
    assert over_processes(pairs, Luck(6, 1e-4), 100.0).call is SpeedCall.FASTER
    assert over_processes(pairs, Luck(6, 1e-2), 100.0).call is SpeedCall.AMBIGUOUS


def test_what_is_known_and_what_is_learned_are_weighed_by_their_degrees_of_freedom():
    both, kept = Luck(6, 0.04).joined(Luck(2, 0.08)), Luck(30, 0.04).joined(Luck(30, 0.08), most=40)
    assert (both.df, both.variance) == (8, pytest.approx(0.05))
    assert (kept.df, kept.variance) == (40, pytest.approx(0.06))
    found = luck_of([1.0, math.e])
    assert luck_of([1.0]) is None and found is not None and (found.df, found.variance) == (1, pytest.approx(0.5))
    for df, variance in ((0, 1.0), (1, -1.0), (1, math.nan)):
        with pytest.raises(ValueError, match="variance"):
            Luck(df, variance)


def test_pairs_contradict_each_other_when_one_is_faster_and_one_slower_for_sure():
    faster, slower, same = (pair(1.0, call=call) for call in (SpeedCall.FASTER, SpeedCall.SLOWER, SpeedCall.SAME))
    assert contradictory([faster, same, slower])
    assert not contradictory([faster, same]) and not contradictory([slower, same])


def test_pairs_are_apart_by_more_than_their_own_intervals():
    assert apart([pair(1.0, 0.01), pair(1.05, 0.01)]) and not apart([pair(1.0, 0.01), pair(1.015, 0.01)])


# -- what is published --


def measured(rival: float, *, half: float = 0.02, eager: float = 2.0, us: float = 100.0) -> Measured:
    def ratio(value: float, over: Subject) -> Speedup:
        call = SpeedCall.FASTER if value > 1.05 else SpeedCall.SLOWER if value < 0.95 else SpeedCall.SAME
        return Speedup(value, value - half, value + half, 16, Basis.MEASURED, over, call)

    return Measured(
        [timing_of(Subject.CANDIDATE, [us], "wall_clock")],
        speedup=ratio(eager, Subject.EAGER),
        rival=ratio(rival, Subject.INCUMBENT),
    )


def test_a_single_measurement_of_many_launches_has_a_wide_interval_and_one_of_work_its_own():
    one = measured(1.2)
    assert published([one], gaps=False).rival == one.rival
    wide = published([one], gaps=True)
    assert wide.rival is not None and wide.rival.call is SpeedCall.AMBIGUOUS and wide.rival.low < 1 < wide.rival.high
    assert one.rival is not None and one.rival.call is SpeedCall.FASTER, "what decides whether it is measured again"
    assert wide.findings == []


def test_the_measurement_that_chose_a_candidate_does_not_count_once_there_are_others():
    found = published([measured(1.5), measured(1.02), measured(1.04)], gaps=True)
    assert found.rival is not None and found.rival.value == pytest.approx(math.sqrt(1.02 * 1.04))
    (over_eager, over_best) = found.findings
    assert over_best.data == {"ratios": [1.5, 1.02, 1.04], "call": "ambiguous"}
    assert over_best.message.startswith("3 pairs of processes found 1.500, 1.020, 1.040 over the best so far")
    assert over_eager.code == "time.processes.speedup"


def test_measurements_that_contradict_each_other_are_unstable_and_no_win():
    for gaps in (True, False):
        found = published([measured(0.9), measured(1.3), measured(1.4)], gaps=gaps)
        assert found.rival is not None and found.rival.call is SpeedCall.UNSTABLE
        assert found.unstable and not found.beats_rival


def test_agreeing_measurements_of_work_show_the_last_one():
    seen = [measured(1.2), measured(1.21)]
    assert published(seen, gaps=False).rival == seen[-1].rival
    spread = published([measured(1.2, half=0.001), measured(1.3, half=0.001)], gaps=False)
    assert spread.rival is not None and spread.rival.high - spread.rival.low > 0.02


def test_the_luck_of_processes_is_learned_from_the_measurements_that_count():
    seen = [measured(1.5), measured(1.0), measured(math.e)]
    found = learned(seen)
    assert found is not None and (found.df, found.variance) == (1, pytest.approx(0.5)) and learned(seen[:2]) is None
    seen[0].rival = None
    assert learned(seen) == Luck(1, 0.0), "against eager where there was no best"
    narrow = published([measured(1.2)], gaps=True, known=Luck(400, 1e-6))
    wide = published([measured(1.2)], gaps=True)
    assert narrow.rival is not None and wide.rival is not None and narrow.rival.low > wide.rival.low


def test_only_what_waits_for_launches_is_learned_from():
    seen = [measured(1.2), measured(1.0), measured(1.1)]
    for gaps in (True, False):
        found, noted = confirming.told(SimpleNamespace(gaps=gaps), seen, None)
        new = learned(seen)
        assert noted == ({"process_luck": {"df": new.df, "variance": new.variance}} if gaps and new else {})
        assert found.rival is not None and found.rival.value == published(seen, gaps=gaps).rival.value
    assert confirming.told(SimpleNamespace(gaps=True), seen[:1], None)[1] == {}


# -- a kernel against itself --


class Simulated(TimingStage):
    """Measurements whose processes have luck: candidate, best and eager each a factor of their own, for each pair."""

    def __init__(self, rng: random.Random, luck: float, noise: float, gain: float = 1.0, *, gaps: bool) -> None:
        self.rng, self.luck, self.noise, self.gain, self.gaps = rng, luck, noise, gain, gaps

    @contextmanager
    def alone(self, *, suffix: str = "", rival: bool = False):
        yield

    def trust(self, found: Measured, *, suffix: str = "") -> Measured:
        return found

    def parts(self, found: Measured) -> list[Finding]:
        return []

    def measure(self, *, suffix: str = "", rival: bool = False) -> Measured:
        mine, theirs, eager = (
            [math.exp(base + self.rng.gauss(0, self.noise)) for _ in range(32)]
            for base in (
                self.rng.gauss(-math.log(self.gain), self.luck), self.rng.gauss(0, self.luck),
                self.rng.gauss(0.5, self.luck),
            )
        )  # fmt: skip
        return Measured(
            [timing_of(Subject.CANDIDATE, [100 * us for us in mine], "wall_clock")],
            speedup=paired_speedup(eager, mine),
            rival=paired_speedup([100 * us for us in theirs], [100 * us for us in mine], Subject.INCUMBENT),
        )


def wins(count: int, *, luck: float, noise: float = 0.03, gain: float = 1.0, gaps: bool = True, seed: int = 5) -> int:
    stage = Simulated(random.Random(seed), luck, noise, gain, gaps=gaps)
    subjects: Any = SimpleNamespace(want=lambda roles: None, ahead=lambda roles: None, release=lambda *names: None)
    found = 0
    for _ in range(count):
        first = stage.measure()
        found += first.beats_rival and confirming.confirmed(stage, first, subjects)[1]
    return found


@pytest.mark.parametrize("luck", [0.0, 0.01, 0.03, 0.1, 0.2])
def test_a_kernel_of_many_launches_wins_against_itself_in_one_of_a_hundred_at_most(luck):
    assert wins(1500, luck=luck) <= 15


@pytest.mark.parametrize("luck", [0.0, 0.002, 0.005, 0.01])
def test_a_kernel_of_one_launch_wins_against_itself_in_one_of_a_hundred_at_most(luck):
    assert wins(1500, luck=luck, noise=0.01, gaps=False) <= 15


def test_a_kernel_that_is_faster_wins_all_the_same():
    assert wins(50, luck=0.03, gain=1.5) >= 45 and wins(50, luck=0.002, noise=0.01, gain=1.1, gaps=False) >= 45


def test_an_interval_ends_a_thousand_times_the_value_up_or_down_whatever_is_known():
    wide = over_processes([pair(2.0)], Luck(1e-6, 1e300), 100.0)
    assert (wide.low, wide.high) == (pytest.approx(2e-3), pytest.approx(2e3)) and wide.call is SpeedCall.AMBIGUOUS
    apart = paired_speedup([1e9, 100.0, 1e-3], [100.0] * 3)
    assert (apart.low, apart.value, apart.high) == (1e-3, 1.0, 1e3)
    fast = Timing(Subject.CANDIDATE, Basis.MEASURED, "x", (1.0,), 1.0, 1e-9, 1e9)
    assert unpaired_speedup(replace(fast, subject=Subject.EAGER), fast).high == 1e3


def test_no_candidate_nor_many_bring_what_is_remembered_far_up():
    known, most = None, luck.OF_LAUNCHES.variance
    for _ in range(400):
        once = luck.remembered(Luck(4, 9.0), known)
        assert once.variance <= 1.5 * max(most, 0 if known is None else known.variance)
        known = once
    assert known.variance == pytest.approx(luck.MOST_VARIANCE) and math.sqrt(known.variance / most) == pytest.approx(2)
    assert luck.remembered(Luck(4, 9.0), Luck(40, 0.0625)).variance <= luck.MOST_VARIANCE, "of an earlier version"
    assert luck.remembered(Luck(4, 1e-6), None).variance == 1e-6
