"""What a bench keeps for its next evaluation goes when none comes."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from judge.devices import benches
from judge.values import Job, JudgeError, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME


class Idle:
    """A bench of which only the waiting children count."""

    def __init__(self, idle_s: float, *, stuck: bool = False) -> None:
        self.idle_s, self.stuck, self.rested = idle_s, stuck, 0

    def waiting(self) -> list[str]:
        return ["referee", "eager"]

    def rest(self) -> None:
        self.rested += 1
        if self.stuck:
            raise JudgeError("the candidate child could not be killed")


def test_only_idle_benches_of_this_process_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    busy, idle, others, stuck = Idle(10.0), Idle(400.0), Idle(400.0), Idle(400.0, stuck=True)
    here = os.getpid()
    known = {(here, "busy"): busy, (here, "stuck"): stuck, (here, "idle"): idle, (here + 1, "others"): others}
    monkeypatch.setattr(benches, "_open", known)
    assert benches.rest_idle(300.0) == 4
    assert [bench.rested for bench in (busy, idle, others, stuck)] == [0, 1, 0, 1]


@pytest.mark.bench
def test_a_rested_bench_judges_as_before(cpu_bench, monkeypatch: pytest.MonkeyPatch) -> None:
    job = Job("idle", ProblemSpec(PROBLEM), SAME, timing=False, beat=float("inf"))
    monkeypatch.setattr(benches, "_open", {(os.getpid(), "cpu"): cpu_bench})
    assert cpu_bench.evaluate(job).verdict is Verdict.PASS
    assert benches.rest_idle(3600.0) == 0
    waiting = [child.pid for child in cpu_bench.waiting()]
    assert waiting and benches.rest_idle(-1.0) >= 1 and not cpu_bench.waiting()
    assert [pid for pid in waiting if Path(f"/proc/{pid}").exists()] == []
    assert cpu_bench.evaluate(job).verdict is Verdict.PASS
