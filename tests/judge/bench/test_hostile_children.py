"""Live children that harm the channel and themselves: the candidate's fault, never the judge's or the device's."""

from __future__ import annotations

import pytest

from judge.values import Job, Outcome, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME
from tests.judge.hostile_children import DEEDS, STAGES, Mixture, is_blamed_on_it, judged

CHOSEN = [
    Mixture("forward", ("partial frame", "killed")),
    Mixture("fourth", ("leaves, child keeps the channel",)),
    Mixture("import", ("frame after exit",)),
    Mixture("init", ("no descriptors left", "other stage")),
    Mixture("later", ("descriptors sent", "deep frame")),
]


def test_a_mixture_is_drawn_by_its_seed():
    drawn = [Mixture.drawn(seed) for seed in range(400)]
    assert drawn == [Mixture.drawn(seed) for seed in range(400)]
    assert {one.stage for one in drawn} == {*STAGES}
    assert {deed for one in drawn for deed in one.deeds} == {*DEEDS}
    for one in drawn:
        compile(one.source, "candidate.py", "exec")


@pytest.mark.bench
@pytest.mark.parametrize("mixture", CHOSEN, ids=str)
def test_harm_is_the_candidates_fault(interpreter_bench, mixture):
    outcome = judged(interpreter_bench, mixture)
    assert is_blamed_on_it(outcome), outcome
    assert isinstance(outcome, Outcome) and outcome.verdict is not Verdict.PASS, "it did no harm"
    after = interpreter_bench.evaluate(Job("after", ProblemSpec(PROBLEM), SAME, timing=False))
    assert after.verdict is Verdict.PASS
