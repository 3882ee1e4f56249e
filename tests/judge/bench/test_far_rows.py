"""Rows far from zero on one side: what they show of wrong kernels, and that right ones stay within what is allowed."""

from __future__ import annotations

import pytest
import torch

from judge.bench.foreign.loading import load_problem
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.comparison import fault_of
from judge.bench.judging.families import reshaped
from judge.bench.judging.far_rows import Far
from judge.bench.judging.freedoms import ADVERSARIAL, Freedom, one_sided
from judge.bench.judging.parameters import put_back
from judge.bench.judging.reference import Reference
from judge.bench.judging.traits import Traits
from tests.judge.rounds_bench import answer, problem

ROWS = "torch.randn(24, 200)"
SOFTMAX = problem("return torch.softmax(x[0], -1)", inputs=ROWS)
VECTOR = problem("return torch.softmax(x[0], -1)", inputs="torch.randn(300)")
LINEAR = problem(
    "return torch.softmax(self.l(x[0]), -1)", inputs="torch.randn(24, 96)", init="self.l = torch.nn.Linear(96, 40)"
)
GREATEST = problem("return x[0].amax(-1)", inputs=ROWS)
LARGEST = problem("return x[0].amax()", inputs=ROWS)
NORM = problem("return F.layer_norm(x[0], (200,))", inputs=ROWS)
CHANNELS = problem("return self.n(x[0])", inputs="torch.randn(8, 6, 5, 20)", init="self.n = torch.nn.BatchNorm2d(6)")
FLOOR = problem("return torch.floor(x[0])", inputs=ROWS)
SIGN = problem("return torch.copysign(torch.ones(()), x[0])", inputs=ROWS)

DIVIDED = "return e / e.sum(-1, keepdim=True)"
FROM = "m = {logits}{part}.amax(-1, keepdim=True){least}\ne = torch.exp({logits} - m)\n" + DIVIDED
ONE_PASS = (
    "t = x[0]\nm = t.mean({dims}, keepdim=True)\nv = (t * t).mean({dims}, keepdim=True) - m * m\n"
    "return (t - m) * torch.rsqrt(v + 1e-5){affine}"
)
AFFINE = " * self.n.weight.view(1, -1, 1, 1) + self.n.bias.view(1, -1, 1, 1)"


def exponentials(logits: str = "x[0]", part: str = "", least: str = "") -> str:
    return FROM.format(logits=logits, part=part, least=least and f".clamp(min={least})")


WRONG = {
    "maximum of the first columns": (SOFTMAX, exponentials(part="[:, :64]"), ADVERSARIAL),
    "maximum of all but the last columns": (SOFTMAX, exponentials(part="[:, :192]"), ADVERSARIAL),
    "maximum from zero": (SOFTMAX, exponentials(least="0.0"), ADVERSARIAL),
    "maximum from -1e4": (SOFTMAX, exponentials(least="-1e4"), ADVERSARIAL),
    "no maximum": (SOFTMAX, "e = torch.exp(x[0])\n" + DIVIDED, ADVERSARIAL),
    "no maximum of a vector": (VECTOR, "e = torch.exp(x[0])\nreturn e / e.sum()", ADVERSARIAL),
    "maximum from zero of a vector": (VECTOR, exponentials(least="0.0"), "one-sided"),
    "maximum from zero after a product": (LINEAR, exponentials("self.l(x[0])", least="0.0"), ADVERSARIAL),
    "greatest from zero": (GREATEST, "return x[0].amax(-1).clamp(min=0)", ADVERSARIAL),
    "greatest of all from zero": (LARGEST, "return x[0].amax().clamp(min=0)", "one-sided"),
    "variance in one pass": (NORM, ONE_PASS.format(dims="-1", affine=""), ADVERSARIAL),
    "variance of channels in one pass": (CHANNELS, ONE_PASS.format(dims="(0, 2, 3)", affine=AFFINE), ADVERSARIAL),
    "nothing added to the variance": (NORM, "return F.layer_norm(x[0], (200,), eps=1e-12)", "scaled"),
    "one less for negative whole numbers": (FLOOR, "i = x[0].trunc()\nreturn torch.where(x[0] < 0, i - 1, i)", "ties"),
    "sign of zero": (SIGN, "return torch.where(x[0] >= 0, 1.0, -1.0)", ADVERSARIAL),
}

SEQUENTIAL = (
    "s = v = torch.zeros(24, 1)\nfor j in torch.randperm(200):\n    s = s + x[0][:, j:j + 1]\nd = x[0] - s / 200\n"
    "for j in torch.randperm(200):\n    v = v + d[:, j:j + 1] ** 2\nreturn d * torch.rsqrt(v / 200 + 1e-5)"
)
POWERS = "y = {logits} * 1.4426950408889634\ne = torch.exp2(y - y.amax(-1, keepdim=True))\n" + DIVIDED
LOGARITHM = "m = x[0].amax(-1, keepdim=True)\nreturn x[0] - (m + torch.exp(x[0] - m).sum(-1, keepdim=True).log())"
RIGHT = {
    "sums one by one": (NORM, SEQUENTIAL),
    "powers of two": (SOFTMAX, POWERS.format(logits="x[0]")),
    "powers of two after a product": (LINEAR, POWERS.format(logits="self.l(x[0])")),
    "a difference of logarithms": (problem("return F.log_softmax(x[0], -1)", inputs=ROWS), LOGARITHM),
    "a mean by atomics": (
        problem("return x[0].mean(-1)", inputs="torch.rand(24, 4000)"),
        "a = torch.zeros(24)\nfor part in x[0][:, torch.randperm(4000)].split(32, -1):\n    a = a + part.sum(-1)\n"
        "return a / 4000",
    ),
    "a weighted sum by atomics": (
        problem("return (x[0] * x[1][:, None]).sum(0)", inputs="torch.randn(16384, 60), torch.rand(16384)"),
        "a = torch.zeros(60)\nterms = x[0] * x[1][:, None]\nfor part in terms[torch.randperm(16384)].split(64):\n"
        "    a = a + part.sum(0)\nreturn a",
    ),
}


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(3)


def asked(folder, source: str) -> dict[str, Question]:
    reference = Reference(load_problem(source, None, folder), "cpu")
    questions = Questions(reference)
    found = [questions.first(None), *(question for _, question in questions.rounds())]
    last = questions.one_sided()
    return {question.family: question for question in found} | ({"one-sided": last} if last is not None else {})


def faults(questions: dict[str, Question], source: str, forward: str) -> set[str]:
    """Families on which a model with this forward is wrong."""
    names: dict[str, type] = {}
    exec(answer(source, forward), names)
    model, found = names["ModelNew"](), set()
    for family, question in questions.items():
        put_back(model, question.state)
        with torch.no_grad():
            value = model(*(tensor.clone() for tensor in question.inputs))
        if fault_of(question.expected.outputs[0], value) is not None:
            found.add(family)
    return found


@pytest.mark.parametrize("name", WRONG)
def test_a_kernel_that_is_right_around_zero_only_is_wrong(tmp_path, name):
    source, forward, family = WRONG[name]
    assert family in faults(asked(tmp_path, source), source, forward)


@pytest.mark.parametrize("name", RIGHT)
def test_another_way_that_is_right_stays_within_what_is_allowed(tmp_path, name):
    source, forward = RIGHT[name]
    assert faults(asked(tmp_path, source), source, forward) == set()


def test_of_a_reference_that_overflows_only_rows_below_zero_are_asked(tmp_path):
    source = problem("e = torch.exp(x[0])\nreturn e.log1p()", inputs=ROWS)
    for _ in range(4):  # rows of any scale lie among them, one of which may overflow as well
        (found,) = asked(tmp_path, source)[ADVERSARIAL].inputs
        assert float(found.amin(1).amax()) < 100
        if float(found.amax(1).amin()) < -100:
            return
    pytest.fail("no row lies below zero")


def test_inputs_on_one_side_are_not_asked_where_nothing_but_tails_would_be_left(tmp_path):
    for dtype in ("float32", "float64"):
        source = problem("return F.softplus(x[0])", inputs=f"torch.randn(8, 20, dtype=torch.{dtype})")
        assert "one-sided" not in asked(tmp_path, source)


def test_a_reference_without_an_answer_for_zeros_is_asked_without_them(tmp_path):
    source = problem("return x[0] / x[0].norm(dim=-1, keepdim=True)", inputs=ROWS)
    assert bool((asked(tmp_path, source)[ADVERSARIAL].inputs[0] != 0).all())


def test_one_entry_lies_below_zero_and_one_channel_above():
    far = Far(400.0, channels=True)
    for _ in range(20):
        found = reshaped(ADVERSARIAL, torch.rand(3, 6, 4, 10), Freedom(far=far))
        below = (found < 0).flatten(1).all(1)
        above = (found > 0).transpose(0, 1).flatten(1).all(1)
        assert bool(above.any()) or bool(below.any())
        assert (found == 0).flatten(0, 2).all(1).any() and (found == 50).any()


def test_one_sided_inputs_have_no_element_above_zero():
    freedom = one_sided(Traits(operators=frozenset({"amax"})))
    assert freedom is not None and one_sided(Traits(operators=frozenset({"add"}))) is None
    for shape in ((5,), (1, 8), (4, 30), (2, 3, 4, 5)):
        assert float(reshaped(ADVERSARIAL, torch.rand(shape), freedom).amax()) < -100
