"""What honest rounding may do to one element: integers on the edge of a step, and elements far from all others."""

from __future__ import annotations

import pytest
import torch

from judge.bench.judging.precision import Allowed, Errors, allowed, reach
from judge.values import Verdict
from tests.judge.rounds_bench import answer, ask, codes, problem

QUANTISE = problem(
    "step = x[0].abs().amax(-1, keepdim=True) / 127\nreturn torch.round(x[0] / step).to(torch.int8)",
    inputs="torch.randn(4096, 1024)",  # some ten edges are met in all rounds
)
INVERSE = (
    "step = x[0].abs().amax(-1, keepdim=True) / 127\nq = torch.round(x[0] * (1 / step)).to(torch.int8)\n{}\nreturn q"
)
GATE = problem("return torch.sigmoid(x[0]) * x[1]", inputs="torch.randn(1 << 16), torch.randn(1 << 16)")


@pytest.mark.bench
def test_a_quantiser_that_multiplies_by_the_inverse_is_right(cpu_bench):
    outcome = ask(cpu_bench, QUANTISE, answer(QUANTISE, INVERSE.format("")))
    assert outcome.verdict is Verdict.PASS, outcome
    assert "differ where rounding decides" in codes(outcome)["value.rounded"]


@pytest.mark.bench
def test_the_same_holds_where_the_reference_cannot_be_computed_in_double(cpu_bench):
    narrow = QUANTISE.replace(
        "step = x", "if x[0].dtype is torch.float64: raise TypeError('not in double')\n        step = x", 1
    )
    outcome = ask(cpu_bench, narrow, answer(narrow, INVERSE.format("")))
    assert outcome.verdict is Verdict.PASS, outcome
    assert "differ where rounding decides" in codes(outcome)["value.rounded"]


@pytest.mark.bench
@pytest.mark.parametrize(
    "bug", ["q[5, 7] += 1", "q[-1, -1] = 0", "q[0] = torch.trunc(x[0][0] / step[0]).to(torch.int8)"]
)
def test_one_element_that_is_a_step_off_without_lying_on_an_edge_is_wrong(cpu_bench, bug):
    few = QUANTISE.replace("4096", "256")
    outcome = ask(cpu_bench, few, answer(few, INVERSE.format(bug)))
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "value.mismatch")


@pytest.mark.bench
def test_a_threshold_on_the_wrong_side_of_equality_is_wrong(cpu_bench):
    source = problem("return x[0] > 0.5", inputs="torch.randint(-6, 7, (512, 512)) / 2")
    assert ask(cpu_bench, source, answer(source, "return x[0] >= 0.5")).verdict is Verdict.WRONG


def test_a_timed_call_may_differ_where_rounding_decides_and_nowhere_else():
    exact = torch.zeros(100_000, dtype=torch.int8)
    limit = Allowed(0.0, 0.0)
    value = exact.clone()
    value[:2] = 1
    assert limit.accepts(value, exact)
    value[2] = 1
    assert not limit.accepts(value, exact)
    assert not limit.accepts(torch.ones(64, dtype=torch.int64), torch.cat([torch.ones(63), torch.zeros(1)]).long())


@pytest.mark.bench
def test_an_outlier_may_be_rounded_as_coarsely_as_it_is_large(cpu_bench):
    slightly = answer(GATE, "return torch.sigmoid(x[0]) * x[1] * (1 + 1.25e-6)")
    assert ask(cpu_bench, GATE, slightly).verdict is Verdict.PASS
    off = answer(GATE, "return torch.sigmoid(x[0]) * x[1] * (1 + 6e-6)")
    assert ask(cpu_bench, GATE, off).verdict is not Verdict.PASS


def test_what_is_allowed_follows_the_farthest_element():
    oracle = torch.zeros(10_000, dtype=torch.float64)
    oracle[:2] = torch.tensor([1.0, -1.0]) * 50
    assert reach(oracle) == pytest.approx(70.7, rel=1e-2)
    near, far = (allowed(Errors(0.0, 0.0), Errors(1e-3, 1e-3), torch.float32, 1, outlier=far) for far in (4.0, 1000.0))
    assert near.largest == pytest.approx(128 * 2**-24)
    assert far.largest == pytest.approx(32 * 2**-24 * 1000) and far.rms == near.rms


@pytest.mark.bench
def test_a_wrong_element_is_not_blamed_on_parameters_that_do_not_matter(cpu_bench):
    source = problem("return F.gelu(x[0])")
    off = answer(source, "y = F.gelu(x[0])\ny[0, 0] += 2e-5\nreturn y")
    outcome = ask(cpu_bench, source, off)
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "value.mismatch"), outcome
