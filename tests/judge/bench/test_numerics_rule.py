"""How far a candidate may be off under each numerics: what the reference itself loses under its switches."""

from __future__ import annotations

import secrets

import pytest
import torch
import torch.nn.functional as F

from judge.bench.foreign.loading import load_problem
from judge.bench.foreign.switches import neutral
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.emulation import ReducedProducts
from judge.bench.judging.precision import errors, rounded
from judge.bench.judging.reference import Reference
from judge.values import SWITCHES, Policy, Precision
from tests.judge.rounds_bench import problem

CONV = problem("return F.conv2d(x[0], x[1])", inputs="torch.randn(2, 8, 12, 12), torch.randn(8, 8, 3, 3)")
PRODUCT = problem("return x[0] @ x[1]", inputs="torch.randn(32, 128), torch.randn(128, 32)")
SMOOTH = problem("return torch.sin(x[0])", inputs="torch.randn(4096)")
RUN = {
    CONV: lambda x, r: F.conv2d(r(x[0]), r(x[1])),
    PRODUCT: lambda x, r: r(x[0]) @ r(x[1]),
    SMOOTH: lambda x, r: torch.sin(r(x[0])),
}


@pytest.fixture(autouse=True)
def _switches_as_they_were():
    yield
    neutral(Policy())


def question(text: str, precision: Precision, folder) -> Question:
    policy = Policy(precision=precision)
    neutral(policy)
    reference = Reference(load_problem(text, None, folder), "cpu", policy)
    return Questions(reference).question("given", reference.first, secrets.randbits(31))


@pytest.mark.parametrize(
    ("text", "kind", "passes"),
    [
        (CONV, "tf32", {"shipped", "tf32", "half"}),
        (CONV, "tf32 cut", {"shipped", "tf32", "half"}),
        (CONV, "bfloat16", {"half"}),
        (PRODUCT, "tf32", {"tf32", "half"}),
        (PRODUCT, "tf32 cut", {"tf32", "half"}),
        (PRODUCT, "bfloat16", {"half"}),
        (SMOOTH, "tf32", {"half"}),
        (SMOOTH, "bfloat16", {"half"}),
    ],
)
def test_a_format_is_right_where_the_switches_let_torch_use_it(tmp_path, text, kind, passes):
    """TF32 is a matter of products: an elementwise function gains no room from it."""
    found = set()
    for precision in Precision:
        asked = question(text, precision, tmp_path)
        [target] = asked.expected.outputs
        value = RUN[text](asked.inputs, lambda tensor: rounded(tensor, kind))
        if target.allowed.holds(errors(value, target.oracle)):
            found.add(precision.value)
    assert found == passes


@pytest.mark.parametrize("text", [CONV, PRODUCT, SMOOTH])
def test_where_no_switch_matters_the_rule_is_the_strict_one(tmp_path, text, monkeypatch):
    monkeypatch.setattr(secrets, "randbits", lambda bits: 7)
    strict = question(text, Precision.STRICT, tmp_path).expected.outputs[0].allowed
    shipped = question(text, Precision.SHIPPED, tmp_path).expected.outputs[0].allowed
    assert (strict == shipped) is (text is not CONV)


@pytest.mark.parametrize("text", [CONV, PRODUCT])
def test_what_is_allowed_is_four_times_what_the_reference_loses(tmp_path, text):
    asked = question(text, Precision.TF32, tmp_path)
    [target] = asked.expected.outputs
    own = errors(RUN[text](asked.inputs, lambda tensor: rounded(tensor, "tf32")), target.oracle)
    cut = errors(RUN[text](asked.inputs, lambda tensor: rounded(tensor, "tf32 cut")), target.oracle)
    assert target.allowed.rms == pytest.approx(max(4 * own.rms, 1.25 * cut.rms), rel=1e-3)


def test_a_reference_is_asked_under_other_numerics_and_keeps_its_own(tmp_path):
    neutral(Policy())
    reference = Reference(load_problem(CONV, None, tmp_path), "cpu", Policy())
    strict = Questions(reference).question("given", reference.first, 3)
    other = Questions(reference.under(Precision.SHIPPED)).question("given", reference.first, 3)
    assert other.expected.allowed[0].rms > 10 * strict.expected.allowed[0].rms
    assert reference.policy.precision is Precision.STRICT


@torch.no_grad()
def test_only_what_is_multiplied_loses_digits():
    bias, left, right = torch.randn(8), torch.randn(4, 16), torch.randn(16, 8)
    plain, wide, shifted = left @ right, left.double() @ right.double(), left * 2 + bias[0]
    reduced = torch.addmm(bias, rounded(left, "tf32"), rounded(right, "tf32"))
    assert not torch.equal(reduced, torch.addmm(bias, left, right))
    with ReducedProducts(SWITCHES[Precision.TF32], "tf32"):
        assert torch.equal(torch.addmm(bias, left, right), reduced)
        assert torch.equal(left * 2 + bias[0], shifted) and torch.equal(left.double() @ right.double(), wide)
    with ReducedProducts(SWITCHES[Precision.SHIPPED], "tf32"):
        assert torch.equal(left @ right, plain)
