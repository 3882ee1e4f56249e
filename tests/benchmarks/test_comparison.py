"""The comparison of two judges: what is run in which order, what the figures mean, and both judges for real."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from judge.bench.foreign.sources import check_source
from judge.bench.runner import Bench
from judge.sources.checks import declared_cases
from tests.benchmarks.comparison.contest import BURST, COLD, PACED, Plan, Sample, contest
from tests.benchmarks.comparison.corpus import entries
from tests.benchmarks.comparison.figures import agreement, columns, percentile, table
from tests.benchmarks.comparison.judges import Answer, Plain
from tests.benchmarks.judge_bench import Command


class FakeJudge:
    def __init__(self, name: str, clock: list[float], wall_s: float = 1.0) -> None:
        self.name, self.clock, self.wall_s = name, clock, wall_s

    def start(self) -> None: ...

    def close(self) -> None: ...

    def judge(self, entry) -> Answer:
        self.clock[0] += self.wall_s
        return Answer("pass", self.wall_s)


def held(plan: Plan, kernels: int = 3, wall_s: float = 1.0) -> tuple[list[Sample], list[float]]:
    clock, slept = [0.0], []
    rivals = [FakeJudge("judge", clock, wall_s), FakeJudge("plain", clock, wall_s)]
    return contest(entries()[:kernels], rivals, plan, clock=lambda: clock[0], sleep=slept.append), slept


def test_the_corpus_has_four_kernels_for_each_of_eight_problems() -> None:
    found = entries()
    assert Counter(Counter(entry.problem for entry in found).values()) == {4: 8}
    assert len({entry.problem for entry in found[:8]}) == 8  # every problem once before any twice
    assert len({entry.candidate for entry in found}) == 32
    for entry in found:
        check_source(entry.candidate, needs=("ModelNew",), max_bytes=1 << 20)
        assert "gpu" in declared_cases(entry.source)


def test_judges_take_turns_and_a_kernel_is_finished_before_the_next() -> None:
    samples, slept = held(Plan(repeats=2, pause_s=0.5))
    assert [sample.phase for sample in samples[:8]] == [COLD] * 2 + [BURST] * 4 + [PACED] * 2
    assert [sample.judge for sample in samples[:2]] == ["judge", "plain"]
    assert [sample.judge for sample in samples[8:10]] == ["plain", "judge"]
    assert slept == [0.5] * 6
    assert not [sample for sample in held(Plan(pause_s=0))[0] if sample.phase == PACED]


def test_nothing_begins_after_the_budget() -> None:
    samples, _ = held(Plan(repeats=1, budget_s=4.5))
    assert len(samples) == 5  # the fifth began at 4.0
    assert held(Plan(budget_s=0.1), wall_s=0.05)[0][:2]


@pytest.mark.parametrize("wrong", [{"repeats": 0}, {"pause_s": -1.0}, {"budget_s": 0.0}])
def test_a_plan_that_means_nothing_is_refused(wrong) -> None:
    with pytest.raises(ValueError):
        Plan(**wrong)


def sample(judge: str, entry: str = "a", phase: str = BURST, verdict: str = "pass", **answer) -> Sample:
    return Sample(judge, entry, phase, Answer(verdict, **{"wall_s": 1.0} | answer))


def test_the_figures_are_what_their_names_say() -> None:
    (row,) = columns(
        [sample("judge", wall_s=wall, busy_s=0.25, alone_s=0.5, calls=calls) for wall, calls in ((1.0, 16), (3.0, 64))]
    )
    assert (row.n, row.per_minute, row.p50_s, row.p95_s) == (2, 30.0, 2.0, 3.0)
    assert (row.overhead_p50_s, row.beside_p50_s, row.alone_share, row.timed_calls) == (1.75, 1.5, 0.25, 40)
    assert percentile(range(1, 101), 95) == 95 and percentile([7.0], 95) == 7.0


def test_phases_and_judges_are_kept_apart() -> None:
    rows = columns([sample("judge", phase=COLD), sample("plain", phase=COLD), sample("judge")])
    assert [(row.phase, row.judge) for row in rows] == [(COLD, "judge"), (COLD, "plain"), (BURST, "judge")]
    assert rows[0].overhead_p50_s is None and len(table(rows)) == 4


def test_agreement_compares_medians_of_the_kernels_that_both_judged() -> None:
    agreed = agreement(
        [
            *(sample("judge", "a", speedup=value) for value in (1.9, 2.0, 9.0)),
            sample("plain", "a", speedup=2.2),
            sample("judge", "b", speedup=1.0),
            sample("plain", "b", verdict="wrong"),
            sample("judge", "c"),
        ],
        "judge",
        "plain",
    )
    assert (agreed.kernels, agreed.same_verdict, agreed.differing) == (2, 1, ("b: pass / wrong",))
    assert agreed.speedups == 1 and agreed.median_difference == pytest.approx(0.1)


def test_what_cannot_be_compared_is_said() -> None:
    with pytest.raises(CommandError, match="no device 'cuda:9'"):
        call_command(Command(), device="cuda:9")
    with pytest.raises(CommandError, match="positive"):
        call_command(Command(), budget=-1.0)


@pytest.mark.bench
def test_the_plain_judge_tells_right_from_wrong_in_a_fresh_process() -> None:
    entry = next(entry for entry in entries() if entry.id == "swiglu_1")
    plain = Plain("interpreter", Bench("interpreter"))
    plain.start()
    try:
        assert plain.judge(entry).verdict == "pass"
        assert plain.judge(replace(entry, candidate="class ModelNew:\n    pass\n")).verdict == "crashed"
        twice = (
            "class ModelNew(Reference):\n    def forward(self, *inputs):\n        return 2 * super().forward(*inputs)\n"
        )
        wrong = entry.source.replace("class Model(", "class Reference(") + twice
        assert plain.judge(replace(entry, candidate=wrong)).verdict == "wrong"
    finally:
        plain.close()
    assert plain.cache is None


@pytest.mark.bench
def test_the_command_compares_both_judges_on_the_interpreter() -> None:
    out = StringIO()
    call_command(Command(), kernels=1, repeats=1, pause=0.0, json=True, stdout=out, stderr=StringIO())
    found = json.loads(out.getvalue())
    assert [(row["phase"], row["judge"], row["n"]) for row in found["columns"]] == [
        (COLD, "judge", 1), (COLD, "plain", 1), (BURST, "judge", 1), (BURST, "plain", 1),
    ]  # fmt: skip
    assert {sample["answer"]["verdict"] for sample in found["samples"]} == {"pass"}
    assert found["agreement"]["same_verdict"] == 1
