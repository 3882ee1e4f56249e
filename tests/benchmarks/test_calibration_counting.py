"""What is counted for a calibration is what the judge counts; sampling a launch changes none of it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from judge.bench.runner import Bench
from judge.values import Job, Subject
from tests.benchmarks.calibration import counting
from tests.benchmarks.calibration.counting import PROGRAMS, Counter, count_all
from tests.benchmarks.calibration.points import points
from tests.benchmarks.calibration.records import Traffic
from tests.benchmarks.calibration.sampling import spread

pytestmark = pytest.mark.bench


def point(name: str):
    return next(point for point in points() if point.id == name)


def totals(traffic: Traffic) -> dict[str, object]:
    return {Subject.CANDIDATE: traffic.candidate.to_json(), Subject.EAGER: traffic.eager.to_json()}


@pytest.fixture(scope="module")
def counter():
    with Counter("sm_90", 600) as counter:
        yield counter


@pytest.fixture(scope="module")
def patient():
    with Counter("sm_90", 600, programs=10**6) as patient:
        yield patient


def test_few_programs_run_all_and_many_are_spread_evenly() -> None:
    assert spread(5, 96) == (0, 1, 2, 3, 4)
    assert spread(10_000, 96)[:3] == (0, 104, 208) and len(set(spread(10_000, 96))) == 96
    assert max(spread(97, 96)) < 97


@pytest.mark.parametrize("name", ["row_softmax_1@given", "matmul_swish_clamp_3@given", "h_linear_policy_bf16@given"])
def test_the_judge_counts_the_same(counter, interpreter_bench: Bench, name: str) -> None:
    wanted = point(name)
    outcome = interpreter_bench.evaluate(Job(name, wanted.spec, wanted.source, beat=float("inf")))
    details = {timing.subject: {k: v for k, v in timing.detail.items() if k != "target"} for timing in outcome.timings}
    assert totals(counter.count(wanted)) == details


@pytest.mark.parametrize("name", ["row_softmax_1@middle", "linear_relu_scale_3@middle"])
def test_a_sampled_launch_counts_as_a_whole_one(counter, patient, name: str) -> None:
    sampled, whole = (each.count(point(name)).candidate for each in (counter, patient))
    assert max(row.programs or 0 for row in sampled.kernels) > PROGRAMS
    for key, value in whole.to_json().items():
        if isinstance(value, int):
            assert sampled.to_json()[key] == pytest.approx(value, rel=0.02), key


@pytest.mark.quiet
def test_what_cannot_be_counted_is_told_and_the_next_point_is_counted() -> None:
    good = point("row_softmax_1@given")
    broken = replace(good, source="raise SystemError('no')", candidate="broken")
    slow = replace(good, source="while True: pass", candidate="slow")
    told: dict[str, object] = {}
    count_all(
        [broken, slow, good], target="sm_90", limit_s=3, workers=1, told=lambda at, found: told.update({at.id: found})
    )
    assert "SystemError" in told["broken@given"]
    assert told["slow@given"] == "took longer than 3 s"
    assert isinstance(told["row_softmax_1@given"], Traffic)


def test_a_counting_process_that_dies_takes_one_point_along(monkeypatch):
    """The kernel's out-of-memory killer, say. Writing to a dead one fails otherwise than reading from it."""
    started: list[Counter] = []

    class Doomed(Counter):
        def __init__(self, *args):
            super().__init__(*args)
            self._process.kill()
            self._process.wait()
            started.append(self)

    monkeypatch.setattr(counting, "Counter", Doomed)
    told: list[tuple[str, object]] = []
    some = points()[:3]
    count_all(some, target="sm_90", limit_s=5, workers=1, told=lambda point, found: told.append((point.id, found)))
    assert told == [(point.id, "the counting process ended") for point in some] and len(started) == 3


def test_nobody_counts_with_nobody():
    with pytest.raises(ValueError, match="from 1"):
        count_all([], target="sm_90", limit_s=5, workers=0, told=lambda point, found: None)
