"""Where outputs are random, the judge's own clock still has a word in what may be the best."""

from __future__ import annotations

import pytest

from judge.selftest.entries import entries
from judge.values import Audit, Job, Outcome, Verdict
from tests.judge.bench_problems import believed

pytestmark = [pytest.mark.bench, pytest.mark.quiet]


def judged(bench, source: str, problem) -> Outcome:
    return bench.evaluate(Job("chance", problem, source))


@pytest.fixture(scope="module")
def liar():
    return next(entry for entry in entries() if entry.id == "e06d_lying_about_chance")


def test_a_lying_clock_makes_no_best_where_outputs_are_random(cpu_bench, liar) -> None:
    outcome = judged(cpu_bench, liar.candidate, liar.problem)
    assert (outcome.verdict, outcome.reason, outcome.audit) == (Verdict.SUSPECT, "time.mismatch", Audit.NONE)
    assert "by the judge's own clock each of" in outcome.message


def test_an_honest_one_is_audited(cpu_bench, liar) -> None:
    honest = liar.problem.source.split("def get_inputs")[0].replace("class Model(", "class ModelNew(")
    outcome = believed(lambda: judged(cpu_bench, honest, liar.problem))
    assert (outcome.verdict, outcome.audit) == (Verdict.PASS, Audit.PASSED)
    assert "time.trusted" in {finding.code for finding in outcome.findings}
