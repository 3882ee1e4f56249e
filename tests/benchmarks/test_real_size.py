"""The comparison at real sizes: what is asked in which phase, what its figures mean, and streams at once."""

from __future__ import annotations

import dataclasses
import math
import threading
import time

import pytest
from django.core.management import CommandError, call_command

from judge.bench.device.statistics import timing_of
from judge.values import JudgeError, Outcome, ProblemSpec, StageRecord, Subject, Verdict
from tests.benchmarks.comparison import real_size
from tests.benchmarks.comparison.judges import Answer
from tests.benchmarks.comparison.real_size import (
    BEST,
    COLD,
    FIRST_BEST,
    LOSER,
    ONCE,
    OURS,
    PLAIN,
    WARM,
    Plan,
    Trial,
    at_once,
    columns,
    compared,
    differing,
    ratios,
    table,
)
from tests.benchmarks.judge_bench import Command
from tests.benchmarks.recorded.entries import Entry, Published


def entry(problem: str = "p1", step: int = 1) -> Entry:
    return Entry(problem, step, ProblemSpec(f"# {problem}"), f"# {problem} {step}", Published.FASTER, 2.0)


class FakeBench:
    """Passes everything; keeps what it was asked, with whether other baselines were wanted."""

    def __init__(self, fails: bool = False) -> None:
        self.alternatives, self.fails, self.closed = True, fails, False
        self.asked: list[tuple[str, float | None, bool, bool]] = []

    def evaluate(self, job):
        self.asked.append((job.id, job.beat, job.incumbent is not None, self.alternatives))
        if self.fails:
            raise JudgeError("no GPU")
        time.sleep(0.002)
        timing = timing_of(Subject.CANDIDATE, [10.0] * 10, "cuda_events", stopped="enough")
        stage = StageRecord("timing", "ok", 123.44)
        return Outcome(
            Verdict.PASS,
            stage="timing",
            loads=True,
            timings=(timing,),
            stages=(stage,),
            environment={"gpu_alone_s": 0.5},
        )

    def close(self):
        self.closed = True


class FakePlain:
    name = PLAIN

    def start(self) -> None: ...

    def close(self) -> None: ...

    def judge(self, entry) -> Answer:
        return Answer("pass", 8.0, speedup=1.5, calls=100)


def test_a_kernel_is_judged_cold_warm_as_a_loser_and_as_a_best_and_then_plainly():
    bench, told = FakeBench(), []
    found = compared([entry(), entry(step=2)], bench, FakePlain(), Plan(losers=1, plain=1), told=told.append)
    assert [trial.phase for trial in found] == [COLD, WARM, LOSER, BEST, FIRST_BEST, ONCE, COLD, WARM, LOSER, BEST]
    assert found == told and {trial.kernel for trial in found[6:]} == {"p1#2"}
    assert bench.asked[:5] == [
        ("p1#1", math.inf, False, False), ("p1#1", math.inf, False, False), ("p1#1", 1000.0, True, False),
        ("p1#1", 0.01, False, False), ("p1#1", 0.01, False, True),
    ]  # fmt: skip
    first = found[0]
    assert (first.pairs, first.stopped, first.alone_s, first.stages_ms) == (10, "enough", 0.5, {"timing": 123.4})


def test_nothing_begins_after_the_budget():
    ticks = iter(range(100))
    found = compared([entry()], FakeBench(), FakePlain(), Plan(budget_s=4.5), clock=lambda: float(next(ticks)))
    assert [trial.phase for trial in found] == [COLD, WARM]


def test_a_fault_of_the_judge_is_a_lost_trial():
    found = compared([entry()], FakeBench(fails=True), FakePlain(), Plan(losers=1, plain=0))
    assert {(trial.verdict, trial.reason) for trial in found} == {("lost", "no GPU")} and columns(found) == []


def test_bests_may_be_fewer_and_phases_left_out():
    plan = Plan(frozenset({COLD, LOSER, BEST}), losers=1, bests=1, plain=0)
    found = compared([entry(), entry(step=2)], FakeBench(), FakePlain(), plan)
    assert [trial.phase for trial in found] == [COLD, LOSER, BEST, COLD, LOSER]


@pytest.mark.parametrize(
    "wrong", [{"losers": -1}, {"plain": -1}, {"bests": -1}, {"budget_s": 0.0}, {"phases": frozenset({"hot"})}]
)
def test_a_plan_that_means_nothing_is_refused(wrong):
    with pytest.raises(ValueError):
        Plan(**wrong)


def trial(judge: str = OURS, kernel: str = "a", phase: str = LOSER, wall_s: float = 1.0, **given) -> Trial:
    return Trial(judge, kernel, phase, given.pop("began_s", 0.0), wall_s, given.pop("verdict", "pass"), **given)


def test_a_ratio_is_about_kernels_that_passed_both():
    rows = [
        trial(wall_s=1.0), trial(wall_s=3.0), trial(PLAIN, phase=ONCE, wall_s=10.0),
        trial(kernel="b", wall_s=99.0), trial(PLAIN, "b", ONCE, 1.0, verdict="crashed"),
        trial(kernel="c", wall_s=0.5), trial(phase=BEST, wall_s=4.0), trial(wall_s=0.01, at_once=4),
    ]  # fmt: skip
    assert ratios(rows) == {LOSER: 5.0, BEST: 2.5}
    assert differing(rows) == ["b: pass / crashed"]


def test_columns_are_about_what_passed_with_medians_of_stages_and_the_rate_of_all_streams():
    rows = [
        trial(wall_s=1.0, pairs=10, stages_ms={"load": 10.0, "timing": 5.0}),
        trial(wall_s=3.0, pairs=16, stages_ms={"load": 30.0}),
        trial(wall_s=50.0, verdict="wrong"),
        *(trial(wall_s=2.0, began_s=2.0 * number, at_once=2) for number in (0, 0, 1, 1)),
    ]
    one, two = columns(rows)
    assert (one.n, one.per_minute, one.p50_s, one.p95_s, one.pairs) == (2, 30.0, 2.0, 3.0, 13)
    assert one.stages_ms == {"load": 20.0, "timing": 5.0}
    assert (two.at_once, two.n, two.per_minute) == (2, 4, 60.0), "four in four seconds"
    assert len(table([one, two], {LOSER: 8.0})) == 3 and "8.0" in table([one], {LOSER: 8.0})[1]


def test_streams_work_at_once_each_with_a_bench_and_a_problem():
    opened: list[FakeBench] = []
    lock = threading.Lock()

    def open_bench() -> FakeBench:
        with lock:
            opened.append(FakeBench())
            return opened[-1]

    entries = [entry("p1"), entry("p1", 2), entry("p2")]
    found = at_once(entries, open_bench, 3, 0.05)
    assert len(opened) == 3 and all(bench.closed for bench in opened)
    assert {one.kernel for one in found} == {"p1#1", "p2#1"} and {one.at_once for one in found} == {3}
    assert all(bench.asked[0][1] == math.inf and bench.asked[1][1] == 1000.0 for bench in opened)
    assert {one.phase for one in found} == {LOSER} and len(found) == sum(len(bench.asked) - 1 for bench in opened)


def test_a_stream_that_cannot_begin_is_told():
    def open_bench():
        raise JudgeError("no such GPU")

    with pytest.raises(JudgeError, match="no such GPU"):
        at_once([entry()], open_bench, 2, 0.05)


def test_rows_are_kept_whole():
    found = real_size.to_json([trial(), trial(PLAIN, phase=ONCE, wall_s=8.0)])
    assert found["times_plain"] == {LOSER: 8.0} and Trial(**found["trials"][0]) == trial()
    assert found["columns"][0] == dataclasses.asdict(columns([trial()])[0])


def test_what_cannot_be_read_is_said(tmp_path):
    with pytest.raises(CommandError, match=r"none\.json"):
        call_command(Command(), recorded=[tmp_path / "none.json"])
