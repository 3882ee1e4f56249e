"""Content for long sums and for products: what it shows that other content does not."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from judge.bench.foreign.loading import load_problem
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.families import reshaped
from judge.bench.judging.parameters import changed, snapshot
from judge.bench.judging.precision import Errors, errors, kept_bits, row_weights, weighted_errors
from judge.bench.judging.probes import ALL_OF_SUMS, OF_SUMS, _decades, mirrored
from judge.bench.judging.reference import Reference
from judge.values import Policy, Precision
from tests.judge.rounds_bench import problem


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(5)


def asked(folder: Path, source: str, **policy) -> dict[str, Question]:
    """The questions of one problem by family."""
    reference = Reference(load_problem(source, None, folder), "cpu", Policy(**policy))
    questions = Questions(reference)
    first = questions.first(None)
    return {first.family: first} | {question.family: question for _, question in questions.rounds()}


MEAN = problem("return x[0].square().mean()", inputs="torch.randn(40000)")
PRODUCT = problem(
    "return x[0] @ self.w + self.b",
    inputs="torch.randn(32, 512)",
    init="self.w = torch.nn.Parameter(torch.randn(512, 48))\nself.b = torch.nn.Parameter(torch.randn(48))",
)

PARTS = {
    "first half": slice(0, 20000),
    "second half": slice(20000, None),
    "every other": slice(0, None, 2),
    "every third": slice(1, None, 3),
    "all but a fiftieth": slice(0, 39200),
}


def test_magnitudes_are_spread_evenly_around_one():
    sizes = _decades(torch.empty(4000), 12.0).abs().log10()
    assert -6 <= float(sizes.min()) < -5.9 and 5.9 < float(sizes.max()) <= 6
    assert abs(float(sizes.mean())) < 0.3


@pytest.mark.parametrize(
    ("forward", "function"),
    [
        ("return x[0].square().mean()", torch.square),
        ("return torch.exp(0.1 * x[0]).mean()", lambda x: torch.exp(0.1 * x)),
        ("return torch.sigmoid(x[0]).mean()", torch.sigmoid),
        ("return x[0].mean()", lambda x: x),
    ],
)
def test_a_mean_of_a_part_is_far_from_the_mean_of_all(tmp_path, forward, function):
    questions = asked(tmp_path, problem(forward, inputs="torch.randn(40000)"))
    for name, part in PARTS.items():
        misses = []
        for question in questions.values():
            (target,) = question.expected.outputs
            value = function(question.inputs[0].double())[part].mean()
            misses.append(errors(value, target.oracle).largest / target.allowed.largest)
        assert max(misses) > 30, name


def test_half_of_the_elements_drawn_by_chance_is_found_too(tmp_path):
    for question in asked(tmp_path, MEAN).values():
        if question.family.startswith("few"):
            (target,) = question.expected.outputs
            some = question.inputs[0][torch.rand(40000) < 0.5].double().square().mean()
            assert errors(some, target.oracle).largest > 30 * target.allowed.largest
            return
    pytest.fail("no content with its energy in few places was asked")


def test_honest_ways_to_add_stay_within_what_is_allowed_on_every_content(tmp_path):
    for question in asked(tmp_path, MEAN).values():
        (target,) = question.expected.outputs
        x = question.inputs[0].square()
        blocks = torch.zeros(())
        for block in x.split(256):
            blocks = blocks + block.sum()
        running = x.cumsum(0)[-1] if x.numel() else x
        for value in (blocks / 40000, running / 40000, x.flip(0).sum() / 40000):
            assert target.allowed.holds(target.errors(value)), question.family


def test_only_sums_of_very_much_are_asked_so(tmp_path):
    families = {name.partition(" ")[0] for name in asked(tmp_path, MEAN)}
    assert {"few", "sunk", "parts"} <= families and not families & {"decades", "scales", "opposed"}
    rows = asked(tmp_path, problem("return x[0].square().mean(1)", inputs="torch.randn(64, 512)"))
    assert not {name.partition(" ")[0] for name in rows} & {"few", "sunk", "parts"}


def test_a_reference_for_positive_numbers_gets_smaller_ones_instead(tmp_path):
    source = problem(
        "return torch.log(x[0]).mean() - torch.log1p(-x[0]).mean()", inputs="torch.rand(20000) * 0.9 + 0.05"
    )
    assert "few 0.001" in asked(tmp_path, source)


def test_amounts_that_tell_nothing_are_tried_for_the_first_candidate_alone(tmp_path, monkeypatch):
    source = problem("return torch.exp(x[0]).mean()", inputs="torch.randn(20000)")
    reference = Reference(load_problem(source, None, tmp_path), "cpu")
    attempt, tried, vain = Questions._attempt, [], []

    def noted(self, family, *rest):
        tried[-1].append(family)
        return attempt(self, family, *rest)

    monkeypatch.setattr(Questions, "_attempt", noted)
    for _ in range(2):
        tried.append([])
        questions = Questions(reference)
        questions.first(None)
        found = {question.family for _, question in questions.rounds()} & ALL_OF_SUMS
        assert len(found) == len(OF_SUMS)
        vain.append((set(tried[-1]) & ALL_OF_SUMS) - found)
    assert vain[0] and vain[0].isdisjoint(tried[1])


def split(x: torch.Tensor, dtype: torch.dtype, parts: int) -> list[torch.Tensor]:
    """`x` as a sum of `parts` tensors that hold `dtype`, in fp32."""
    found = []
    for _ in range(parts):
        part = x.to(dtype).float()
        found.append(part)
        x = x - part
    return found


def product(question: Question, dtype: torch.dtype, parts: int) -> torch.Tensor:
    """What a kernel makes of split operands: all products of parts whose places add up to less than `parts`."""
    left, right = split(question.inputs[0], dtype, parts), split(question.state["w"], dtype, parts)
    pairs = [(i, j) for i in range(parts) for j in range(parts) if i + j < parts]
    out = torch.zeros(())
    for i, j in sorted(pairs, key=sum, reverse=True):
        out = out + left[i] @ right[j]
    return out + question.state["b"]


def wrong_on(questions: dict[str, Question], dtype: torch.dtype, parts: int) -> set[str]:
    return {
        question.family.partition(" ")[0]
        for question in questions.values()
        if not question.expected.outputs[0].allowed.holds(
            question.expected.outputs[0].errors(product(question, dtype, parts))
        )
    }


def test_three_bfloat16_parts_are_right_on_every_content_and_two_where_products_cancel(tmp_path):
    questions = asked(tmp_path, PRODUCT)
    assert wrong_on(questions, torch.bfloat16, 3) == set()
    assert wrong_on(questions, torch.bfloat16, 2) == {"opposed"}
    assert "centred" in wrong_on(questions, torch.bfloat16, 1)


def test_float16_parts_are_right_near_one_and_wrong_beyond_their_range(tmp_path):
    found = wrong_on(asked(tmp_path, PRODUCT), torch.float16, 3)
    assert {"decades", "scales"} <= found and not found & {"given", "centred", "scaled"}


def test_a_plain_running_sum_in_single_precision_is_right_where_products_cancel(tmp_path):
    source = problem("return x[0] @ x[1]", inputs="torch.randn(24, 2048), torch.randn(2048, 20)")
    question = asked(tmp_path, source)["opposed"]
    left, right = question.inputs
    total = torch.zeros(24, 20)
    for k in range(2048):
        total = total + left[:, k : k + 1] * right[k : k + 1]
    (target,) = question.expected.outputs
    assert target.allowed.holds(target.errors(total))
    parts = [split(tensor, torch.bfloat16, 2) for tensor in (left, right)]
    lost = sum(parts[0][i] @ parts[1][j] for i, j in ((1, 0), (0, 1), (0, 0)))
    assert not target.allowed.holds(target.errors(lost))


def test_other_policies_are_not_asked_for_digits(tmp_path):
    families = asked(tmp_path, PRODUCT, precision=Precision.TF32)
    assert not {name.partition(" ")[0] for name in families} & {"decades", "scales", "opposed"}


def test_content_that_a_reference_amplifies_tells_nothing_about_digits(tmp_path):
    source = problem("return torch.softmax(x[0] @ x[0].t(), 1)", inputs="torch.randn(64, 64)")
    assert not {name.partition(" ")[0] for name in asked(tmp_path, source)} & {"decades", "scales", "opposed"}
    vanishing = problem(
        "return torch.sigmoid(x[0] @ self.w)",
        inputs="torch.randn(2, 64)",  # scales of 1e-30 and 1e30 alone
        init="self.w = torch.nn.Parameter(torch.randn(64, 8))",
    )
    assert "scales 60" not in asked(tmp_path, vanishing), "ones and halves whatever the operands' digits"


def test_rows_of_very_different_scale_count_each_beside_its_own():
    oracle = torch.tensor([[1e20, -1e20], [1e-20, -1e-20]], dtype=torch.float64)
    lost = torch.tensor([[1e20, -1e20], [0.0, 0.0]], dtype=torch.float64)
    assert errors(lost, oracle).rms < 1e-30
    assert weighted_errors(lost, oracle, row_weights(oracle)).rms == pytest.approx(math.sqrt(0.5))
    assert row_weights(torch.ones(3)) is None
    assert torch.equal(row_weights(torch.zeros(2, 2, dtype=torch.float64)), torch.ones(2, 1, dtype=torch.float64))


def test_opposed_halves_leave_a_thousandth_of_a_product():
    x, w = reshaped("opposed", [torch.randn(16, 64), torch.randn(64, 8)])
    assert float((x @ w).abs().max()) < 0.02 * float((x.abs() @ w.abs()).min())
    assert float(mirrored(torch.ones(7)).max()) == pytest.approx(1e-3)


def test_parameters_that_are_one_stay_one_when_they_are_mirrored():
    layer = torch.nn.Linear(8, 8)
    both = torch.nn.Sequential(layer, layer)
    made = changed(snapshot(both), mirrored)
    assert torch.equal(made["0.weight"], made["1.weight"])
    assert torch.equal(made["0.weight"][:4], made["0.weight"][4:])


def test_layout_and_type_of_the_given_input_are_kept():
    for families in OF_SUMS:
        given = torch.randn(8, 6).t().half()
        found = reshaped(families[-1], [given, torch.arange(4)])
        assert found[0].stride() == given.stride() and found[0].dtype == given.dtype
        assert torch.equal(found[1], torch.arange(4))


def test_kept_bits_are_read_off_the_coarser_formats_error():
    low = Errors(1e-3, 1e-3)
    assert kept_bits(low, low, torch.float32) == 11
    assert kept_bits(Errors(1e-3 / 32, 1.0), low, torch.float32) == 16
    assert kept_bits(Errors(0.0, 0.0), low, torch.float32) == kept_bits(Errors(1e-30, 1.0), low, torch.float32) == 24
    assert kept_bits(low, None, torch.float32) is None and kept_bits(low, low, torch.bfloat16) is None
    assert kept_bits(low, low, torch.float64) == 24
