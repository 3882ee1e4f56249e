"""The harness notices what is not as it must be: planted misses, wrong reasons, a judge that fails, false winners."""

from __future__ import annotations

import json
import os
import signal
import time

import pytest

from judge.bench.processes.stopping import look
from judge.selftest.entries import Corpus
from judge.selftest.results import Report, State
from judge.selftest.run import bench_kind, judged, kinds_of, run_entries
from judge.values import Audit, JudgeError, SpeedCall
from tests.judge.selftest_makers import TOOLCHAIN, FakeBench, entry, passed, wrong


def run(found, answer, device="interpreter", **options):
    benches: list[FakeBench] = []

    def open_bench(name: str) -> FakeBench:
        benches.append(FakeBench(answer))
        return benches[-1]

    report = run_entries(found, device, open_bench, **options)
    assert all(bench.closed for bench in benches)
    return report


def test_all_as_it_must_be_is_green():
    found = [entry("e01"), entry("h01", Corpus.HONEST, "pass")]
    report = run(found, lambda job: wrong() if "e01" in job.candidate else passed())
    assert not report.red and [row.state for row in report.results] == [State.RIGHT, State.RIGHT]
    assert report.toolchain == TOOLCHAIN


@pytest.mark.parametrize(
    ("planted", "answer", "state"),
    [
        (entry("e01"), passed(), State.MISSED),
        (entry("m01", Corpus.MUTATION), passed(), State.MISSED),
        (entry("h01", Corpus.HONEST, "pass"), wrong(), State.MISSED),
        (entry("e01", expect="crashed"), wrong(), State.REASON),
    ],
    ids=["attack passes", "bug passes", "honest is rejected", "other reason"],
)
def test_a_planted_miss_makes_it_red_and_is_named(planted, answer, state):
    others = [entry(f"e{number}") for number in range(20, 24)]
    report = run([*others, planted], lambda job: answer if planted.id in job.candidate else wrong())
    assert report.red
    count = next(count for count in report.counts() if count.corpus is planted.corpus)
    assert (count.missed if state is State.MISSED else count.reason) == (planted.id,)
    assert next(row for row in report.results if row.id == planted.id).state is state


def test_a_judge_that_fails_once_is_asked_again_and_one_that_goes_on_failing_is_lost():
    asked: list[str] = []

    def answer(job):
        asked.append(job.candidate)
        if "e02" in job.candidate or len(asked) == 1:
            raise JudgeError("the zygote fell over")
        return wrong()

    report = run([entry("e01"), entry("e02")], answer, workers=1)
    assert [row.state for row in report.results] == [State.RIGHT, State.LOST]
    assert report.red and report.counts()[0].lost == ("e02",)


def test_a_run_without_entries_proves_nothing():
    assert run([], lambda job: wrong()).red


def test_a_device_without_a_gpu_meets_attacks_on_the_clock_on_the_processor():
    assert kinds_of("interpreter") == ("interpreter", "cpu") and kinds_of("cuda:1") == ("cuda",)
    assert bench_kind(entry("e01", benches=frozenset({"cpu", "cuda"})), "interpreter") == "cpu"
    assert bench_kind(entry("e01", benches=frozenset({"cuda"})), "interpreter") is None
    report = run([entry("e01"), entry("e02", benches=frozenset({"cuda"}))], lambda job: wrong())
    assert report.skipped == ("e02",) and len(report.results) == 1


def test_an_entry_that_repeats_is_judged_again_on_the_same_bench():
    answers = iter([passed(), wrong()])
    report = run([entry("e01", repeat=2)], lambda job: next(answers), workers=1)
    assert not report.red


def test_an_entry_about_admission_looks_at_the_problem():
    report = run([entry("e48", admits=True, expect="degenerate")], lambda job: passed())
    assert not report.red and report.results[0].reason == "problem.constant"


def test_what_would_be_best_is_audited_unless_the_entry_says_no():
    seen = {}
    found = [entry("e01"), entry("e02", audit=False)]
    run(found, lambda job: (seen.__setitem__(job.candidate, job.beat), wrong())[1])
    assert seen == {"# e01": None, "# e02": float("inf")}


def test_a_win_that_a_fresh_pair_does_not_repeat_is_told_and_makes_no_best():
    calls = iter([SpeedCall.FASTER] * 5 + [SpeedCall.SAME] * 5)
    twin = entry("a01", Corpus.AA, "pass", incumbent="# a01", comparisons=10, audit=False)
    (row,) = run([twin], lambda job: passed(next(calls)), device="cuda:0", workers=1).results
    assert (row.faster, row.message) == (
        0,
        "5 faster in one pair of two, 5 same; ratios 1.000 to 1.000, 1.000 at the median",
    )


@pytest.mark.parametrize(("faster", "red"), [(0, False), (3, False), (4, True)])
def test_a_kernel_may_beat_itself_in_one_comparison_of_a_hundred(faster, red):
    calls = iter([SpeedCall.FASTER] * faster + [SpeedCall.SAME] * 300)
    twin = entry("a01", Corpus.AA, "pass", incumbent="# a01", comparisons=300, audit=False)
    report = run([twin], lambda job: passed(next(calls), Audit.PASSED), device="cuda:0", workers=1)
    assert report.red is red
    assert (report.counts()[0].n, report.counts()[0].right) == (300, 300 - faster)


@pytest.mark.parametrize(("faster", "red"), [(1, False), (2, True)])
def test_a_class_of_sizes_may_have_one_false_win_however_many_others_have_none(faster, red):
    calls = {"# a01": iter([SpeedCall.FASTER] * faster + [SpeedCall.SAME] * 99), "# a02": iter([SpeedCall.SAME] * 900)}
    twins = [
        entry(name, Corpus.AA, "pass", incumbent=f"# {name}", comparisons=count, audit=False, size=size)
        for name, count, size in (("a01", 100, "5 us"), ("a02", 450, "1 ms"), ("a03", 450, "1 ms"))
    ]
    calls["# a03"] = calls["# a02"]
    report = run(twins, lambda job: passed(next(calls[job.candidate]), Audit.PASSED), device="cuda:0", workers=1)
    assert [(one.size, one.comparisons, one.faster, one.red) for one in report.sizes()] == [
        ("5 us", 100, faster, red),
        ("1 ms", 900, 0, False),
    ]
    assert report.red is red and not report.counts()[0].red, "two of a thousand"


def test_comparisons_end_with_the_time_for_them_and_those_made_count():
    left = iter([True] * 4)
    twin = entry("a01", Corpus.AA, "pass", incumbent="# a01", comparisons=50, audit=False)
    row = judged(twin, "cuda", FakeBench(lambda job: passed(SpeedCall.SAME)), lambda: next(left, False))
    assert (row.state, row.comparisons, row.faster) == (State.RIGHT, 5, 0)


def test_a_twin_that_was_never_compared_is_lost():
    twin = entry("a01", Corpus.AA, "pass", incumbent="# a01", comparisons=2, audit=False)
    assert run([twin], lambda job: passed(), device="cuda:0").counts()[0].lost == ("a01",)


def test_rows_come_back_in_order_and_progress_in_the_callers_thread():
    import threading

    told = []
    found = [entry(f"e{number:02}") for number in range(40)]
    here = threading.get_ident()
    report = run(found, lambda job: wrong(), workers=4, progress=lambda row: told.append(threading.get_ident()))
    assert [row.id for row in report.results] == [one.id for one in found]
    assert told == [here] * 40


def test_a_bench_that_cannot_start_is_raised_and_not_a_result():
    def open_bench(name):
        raise JudgeError("no zygote")

    with pytest.raises(JudgeError, match="no zygote"):
        run_entries([entry("e01")], "interpreter", open_bench)


def test_a_report_survives_json():
    report = run([entry("e01"), entry("h01", Corpus.HONEST, "pass")], lambda job: wrong())
    assert Report.from_json(json.loads(json.dumps(report.to_json()))) == report


def test_after_the_budget_nothing_begins_and_what_is_there_is_told():
    found = [entry(f"e{number:02}") for number in range(6)]

    def slow(job):
        time.sleep(0.6)
        return wrong()

    report = run(found, slow, workers=1, budget_s=1.0)
    assert 1 <= len(report.results) <= 3 and report.left == 6 - len(report.results)
    assert not report.whole and Report.from_json(report.to_json()).left == report.left


def test_ctrl_c_lets_what_is_under_way_finish_and_keeps_it():
    found = [entry(f"e{number:02}") for number in range(6)]

    def interrupted(job):
        if "e01" in job.candidate:
            os.kill(os.getpid(), signal.SIGINT)  # as a terminal does: to the process
        time.sleep(0.2)
        return wrong()

    report = run(found, interrupted, workers=1)
    assert 2 <= len(report.results) < 6 and report.left == 6 - len(report.results)


def test_one_that_is_not_wanted_any_more_gives_up_what_is_under_way():
    def answer(job):
        asked.append(job.id)
        while True:
            time.sleep(0.01)
            look()

    asked: list[str] = []
    report = run([entry("e01"), entry("e02")], answer, workers=1, unwanted=lambda: bool(asked))
    assert (report.left, len(asked), report.whole) == (2, 1, False)
