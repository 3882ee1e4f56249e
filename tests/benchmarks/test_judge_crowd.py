"""The crowd's figures and streams; workers are processes with real benches and are tried by hand."""

from __future__ import annotations

from itertools import islice

import pytest

from judge.bench.foreign.sources import check_source
from judge.values import Job, JudgeError, Outcome, StageRecord, Verdict
from tests.benchmarks.judge_crowd import Row, figures, honest_jobs, judged, losing_jobs, loss


class Bench:
    def __init__(self, clock: list[float]) -> None:
        self.clock = clock

    def evaluate(self, job: Job) -> Outcome:
        self.clock[0] += 2.0
        if job.id == "b":
            raise JudgeError("the device is gone")
        stages = (StageRecord("load", "ok", 5.0), StageRecord("load", "ok", 7.0))
        environment = {"gpu_alone_s": 0.5, "device": "cuda:0"}
        return Outcome(Verdict.PASS, stage="load", loads=True, stages=stages, environment=environment)


def test_a_worker_tells_every_evaluation_until_its_time_is_over():
    clock, rows = [0.0], []
    problem = honest_jobs(1, "cuda")[0].problem
    jobs = [Job(name, problem, "") for name in "abcd"]
    judged(jobs, Bench(clock), 3, rows.append, 5.0, lambda: clock[0])
    assert [(row.id, row.worker, row.verdict, row.wall_s) for row in rows] == [
        ("a", 3, "pass", 2.0), ("b", 3, "lost", 2.0), ("c", 3, "pass", 2.0),
    ]  # fmt: skip
    assert rows[0].stages_ms == {"load": 12.0} and rows[0].waits_s == {"gpu_alone_s": 0.5}
    assert rows[1].message == "the device is gone"


def test_every_honest_kernel_has_a_problem_of_its_own_and_every_pass_is_audited():
    jobs = honest_jobs(30, "cuda")
    assert len({job.problem.source for job in jobs}) == len({job.id for job in jobs}) == 30
    assert all(job.beat is None and job.timing for job in jobs)


def test_a_stream_judges_other_losers_of_one_problem_for_ever():
    jobs = list(islice(losing_jobs(1, "cuda"), 3))
    assert len({job.candidate for job in jobs}) == 3 and len({job.problem for job in jobs}) == 1
    assert all(job.beat > 1000 and job.incumbent not in (None, job.candidate) for job in jobs)
    check_source(jobs[2].candidate, needs=("ModelNew",), max_bytes=1 << 20)


def test_figures_are_medians_of_what_was_there_and_name_what_did_not_pass():
    rows = [
        Row("a", 0, "pass", "", 1.0, {"load": 10.0, "audit": 4.0}, {"gpu_alone_s": 1.0}),
        Row("b", 1, "suspect", "time.mismatch", 2.0, {"load": 30.0}, {"gpu_alone_s": 3.0}),
        Row("c", 1, "pass", "", 9.0, {"load": 20.0, "audit": 8.0}),
    ]
    assert figures(rows) == {
        "n": 3, "p50_s": 2.0, "p95_s": 9.0, "not_passed": ["b: suspect time.mismatch"],
        "stages_ms": {"load": 20.0, "audit": 6.0}, "waits_s": {"gpu_alone_s": 2.0},
    }  # fmt: skip
    assert loss(rows, rows[:2]) == pytest.approx(1 / 3)
