"""How often a would-be best is measured: twice in fresh processes, three times where it wins narrowly."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.deciding import confirming
from judge.bench.timing.stage import Measured, TimingStage
from judge.values import Basis, Finding, SpeedCall, Speedup, Subject, Timing

EAGER = Speedup(2.0, 1.9, 2.1, 16, Basis.MEASURED)
FASTER, NARROWLY, SAME = (1.2, 1.1), (1.03, 1.02), (1.0, 0.99)


def measured(ratio: tuple[float, float] | None) -> Measured:
    timing = Timing(Subject.CANDIDATE, Basis.MEASURED, "cuda_events", (100.0,), 100.0, 100.0, 100.0)
    found = Measured([timing], speedup=EAGER, findings=[Finding("time.trusted", "by bursts")])
    if ratio is not None:
        value, low = ratio
        call = SpeedCall.FASTER if low > 1.01 else SpeedCall.SAME
        found.rival = Speedup(value, low, value + 0.01, 16, Basis.MEASURED, Subject.INCUMBENT, call)
    return found


class Stage(TimingStage):
    """Measurements that are known beforehand."""

    def __init__(self, *then: tuple[float, float] | None) -> None:
        self.then = list(then)
        self.suffixes: list[str] = []

    def measure(self, *, suffix: str = "", rival: bool = False) -> Measured:
        self.suffixes.append(suffix)
        return measured(self.then.pop(0))

    def trust(self, found: Measured, *, suffix: str = "") -> Measured:
        assert suffix == self.suffixes[-1]
        return found

    def parts(self, found: Measured) -> list[Finding]:
        return [Finding("time.parts", "forward and backward")]


@pytest.mark.parametrize(
    ("pairs", "used", "confirmed"),
    [
        ([None, None], 2, True),
        ([FASTER, FASTER], 2, True),
        ([FASTER, SAME], 2, False),
        ([NARROWLY, NARROWLY, NARROWLY], 3, True),
        ([NARROWLY, FASTER, NARROWLY], 3, False),
        ([FASTER, NARROWLY, SAME], 3, False),
        ([NARROWLY, SAME], 2, False),
    ],
    ids=["no rival", "clear", "clear once", "narrow thrice", "too far apart", "narrow twice", "narrow once"],
)
def test_a_narrow_win_is_found_in_three_sets_of_processes(pairs, used, confirmed) -> None:
    children: list[str] = []
    ahead: list[list[str]] = []
    released: list[str] = []
    subjects: Any = SimpleNamespace(
        want=children.extend,
        ahead=lambda roles: ahead.append([*roles, *stage.suffixes]),
        release=lambda *names: released.extend(names),
    )
    stage = Stage(*pairs[1:])
    seen, agree = confirming.confirmed(stage, measured(pairs[0]), subjects)
    found = seen[-1]
    assert len(seen) == used
    assert (len(stage.suffixes) + 1, agree) == (used, confirmed)
    assert ahead[0] == ["audit", "audit.noop"], "they start before the measurement that they wait for"
    assert stage.suffixes == ["#2", "#3"][: used - 1]
    assert children == released and ("incumbent#2" in children) == (pairs[0] is not None)
    assert ("time.parts" in [finding.code for finding in found.findings]) == confirmed
    (told,) = (finding for finding in found.findings if finding.code == "time.confirmed")
    assert told.data["first_speedup"] == 2.0
    assert ("three times" in told.message) == (used == 3)
    assert [finding.code for finding in found.findings].count("time.trusted") == 1


@pytest.mark.parametrize(("pairs", "beat", "wins"), [
    ([FASTER, None], 1.89, True), ([FASTER, None], 1.91, False), ([None, None], 1.91, False),
    ([None, None], None, True), ([FASTER, FASTER], 1.91, True),
])  # fmt: skip
def test_without_the_best_so_far_beside_it_the_interval_must_lie_above_its_speedup(pairs, beat, wins) -> None:
    """It is 2.0 [1.9, 2.1] times as fast as eager."""
    subjects: Any = SimpleNamespace(want=lambda roles: None, ahead=lambda roles: None, release=lambda *names: None)
    found = confirming.confirmed(Stage(*pairs[1:]), measured(pairs[0]), subjects, beat=beat)
    assert found[1] is wins
