"""Which inputs the rounds bring and what they find: easy paths, layouts, tie rules, lost compensation, races."""

from __future__ import annotations

import pytest
import torch

from judge.bench.foreign.loading import load_problem
from judge.bench.judging.families import FAMILIES, extreme, reshaped, strided, varied
from judge.bench.judging.freedoms import Freedom
from judge.bench.judging.reference import Reference
from judge.bench.judging.traits import traits_of
from judge.values import DEFAULT_POLICY, Verdict
from tests.judge.rounds_bench import answer, ask, codes, problem

PLAIN = problem("return F.gelu(x[0])")


def test_there_are_two_given_rounds_and_one_of_each_other_kind():
    assert sorted(FAMILIES) == ["adversarial", "centred", "given", "given", "scaled"]


def test_the_adversarial_family_mixes_magnitudes_ties_zeros_and_an_outlier():
    torch.manual_seed(1)
    rows = reshaped("adversarial", torch.rand(64, 32))
    sizes = rows.abs().mean(1)
    assert (rows == 0).all(1).any() and torch.equal(rows[0], rows[-1])
    assert sizes[sizes > 0].max() / sizes[sizes > 0].min() > 30
    assert (rows == 50).sum() in (1, 2)  # twice in one of the equal rows


@pytest.mark.parametrize("shape", [(3, 4), (4, 1), (16, 64), (2, 9), (1, 32), (5,), (12,), (2, 3, 4)])
def test_neither_zeros_nor_equal_rows_take_the_outlier_away(shape):
    for seed in range(60):
        torch.manual_seed(seed)
        found = reshaped("adversarial", torch.rand(shape))
        rows = found.reshape(-1, found.shape[-1])
        assert found.shape == shape and (found == 50).any()
        assert len(rows) < 3 or ((rows == 0).all(1).any() and torch.equal(rows[0], rows[-1]))


def test_where_the_order_of_equal_elements_is_open_there_are_none():
    torch.manual_seed(1)
    rows = reshaped("adversarial", torch.rand(64, 32), Freedom(ties=False))
    assert rows.unique().numel() > 0.99 * rows.numel()


def test_indices_become_extreme_and_repeated_within_their_range():
    torch.manual_seed(0)
    given = torch.randint(3, 90, (40, 25))
    found = extreme(given)
    assert (found.min(), found.max()) == (given.min(), given.max()) and found.dtype == given.dtype
    assert (found == found.mode().values.mode().values).sum() > 250 and (found == given.max()).sum() > 100
    assert torch.equal(reshaped("centred", given), given)
    assert torch.equal(reshaped("adversarial", given, Freedom(indices=False)), given)


def test_a_permutation_stays_one_and_offsets_keep_rising():
    torch.manual_seed(0)
    mixed = torch.randperm(100)
    assert torch.equal(extreme(mixed).sort().values, torch.arange(100)) and not torch.equal(extreme(mixed), mixed)
    offsets = torch.tensor([0, 3, 3, 9, 20])
    found = extreme(offsets)
    assert (found[0], found[-1]) == (0, 20) and bool((found[1:] >= found[:-1]).all())
    assert torch.equal(extreme(torch.arange(9)), torch.arange(9))
    mask = torch.rand(9) > 0.5
    assert reshaped("adversarial", mask) is mask


def test_ties_are_everywhere_and_cancelling_sums_leave_little():
    torch.manual_seed(0)
    eighths = reshaped("ties", torch.randn(32, 64))
    assert torch.equal(eighths * 8, (eighths * 8).round()) and eighths.unique().numel() <= 52
    assert torch.equal(eighths.bfloat16().float(), eighths) and float((eighths * 2 % 1 == 0).float().mean()) > 0.5
    assert float(reshaped("offset", torch.zeros(64, 64)).mean()) == pytest.approx(100, abs=1)
    left = reshaped("cancelling", torch.randn(48, 64))
    for dim in (0, 1):
        assert float(left.sum(dim).abs().max()) < 0.02 * float(left.abs().sum(dim).min())


def test_the_other_layout_has_equal_content_and_is_not_contiguous():
    for tensor in (torch.randn(4, 6), torch.randn(7), torch.randn(2, 1, 5), torch.arange(12).view(3, 4)):
        other = strided([tensor])[0]
        assert torch.equal(other, tensor) and not other.is_contiguous()
    assert strided(torch.randn(4, 6).t()).is_contiguous()


def test_a_factory_that_always_gives_the_same_is_varied_within_its_range():
    torch.manual_seed(0)
    fixed = torch.linspace(0, 1, 50)
    assert torch.equal(varied(fixed).sort().values, fixed) and not torch.equal(varied(fixed), fixed)
    assert 0.5 <= float(varied(torch.ones(3))[0]) < 1.0


def test_a_factory_that_gave_the_same_twice_is_varied_from_then_on(tmp_path):
    source = problem("return x[0]", inputs="torch.linspace(0, 1, 50)")
    reference = Reference(load_problem(source, None, tmp_path), "cpu", DEFAULT_POLICY)
    first, second, third = (reference.inputs("given", seed)[0] for seed in range(3))
    assert torch.equal(first, torch.linspace(0, 1, 50))
    assert not torch.equal(second, first) and not torch.equal(third, first) and not torch.equal(third, second)


def test_traits_tell_what_a_reference_defines():
    x = torch.randn(8, 64)
    assert traits_of(lambda: x.argmax(1)).tie_rule and traits_of(lambda: x.max(1)).tie_rule
    assert traits_of(lambda: x.sort(stable=True)).tie_rule and not traits_of(lambda: x.amax(1)).tie_rule
    assert traits_of(lambda: x.topk(3)[1].clone()).ties_open and traits_of(lambda: x.sort()[1].clone()).ties_open
    assert traits_of(lambda: (3 * x).floor()).steps and not traits_of(lambda: (3 * x).half()).steps
    assert not traits_of(lambda: (3 * x).to(torch.int8)).steps, "one edge would be met by many equal elements"
    assert not traits_of(lambda: x.topk(3)[0].clone()).ties_open, "the values are the same whichever of equals wins"


@pytest.mark.bench
@pytest.mark.parametrize("contiguous", [True, False])
def test_memory_beside_an_input_must_be_left_alone_in_every_layout(cpu_bench, contiguous):
    beside = f"""import ctypes
if x[0].is_contiguous() is {contiguous}:
    last = sum((size - 1) * step for size, step in zip(x[0].shape, x[0].stride()))
    ctypes.memset(x[0].data_ptr() + 4 * last + 4, 1, 4)
return F.gelu(x[0])"""
    outcome = ask(cpu_bench, PLAIN, answer(PLAIN, beside))
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "value.guard_band") and "input 0" in outcome.message


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "label"),
    [
        ("return F.gelu(x[0])", ""),
        ("assert x[0].is_contiguous()\nreturn F.gelu(x[0])", "layout.guarded"),
        ("return F.gelu(torch.as_strided(x[0], (16, 64), (64, 1)))", "layout.unsafe"),
    ],
)
def test_a_kernel_made_for_contiguous_inputs_passes_with_a_label(cpu_bench, forward, label):
    outcome = ask(cpu_bench, PLAIN, answer(PLAIN, forward))
    assert outcome.verdict is Verdict.PASS, outcome
    assert {code for code in codes(outcome) if code.startswith("layout")} == ({label} if label else set())
    assert any(case.family == "strided" for case in outcome.cases)


@pytest.mark.bench
def test_a_layout_that_the_problem_itself_gives_is_no_label(cpu_bench):
    source = problem("return F.gelu(x[0])", inputs="torch.randn(64, 16).t()")
    careless = answer(source, "return F.gelu(torch.as_strided(x[0], (16, 64), (64, 1)))")
    assert ask(cpu_bench, source, careless).verdict is Verdict.WRONG


@pytest.mark.bench
def test_a_reference_that_wants_contiguous_inputs_is_asked_no_others(cpu_bench):
    source = problem("return F.gelu(x[0].view(-1))")
    outcome = ask(cpu_bench, source, answer(source))
    (case,) = [case for case in outcome.cases if case.family == "strided"]
    assert outcome.verdict is Verdict.PASS and "left out" in case.detail


@pytest.mark.bench
@pytest.mark.parametrize(
    ("forward", "verdict"),
    [
        ("return F.gelu(x[0]) + 0.01 * float(os.urandom(1)[0] / 255)", Verdict.UNSTABLE),
        ("return F.gelu(x[0]) * (1 + 1e-9 * os.urandom(1)[0])", Verdict.PASS),
        ("return F.gelu(x[0]) * 1.01", Verdict.WRONG),
    ],
)
def test_answers_to_equal_content_must_agree(cpu_bench, forward, verdict):
    source = answer(PLAIN, forward).replace("import torch\n", "import os, torch\n", 1)
    outcome = ask(cpu_bench, PLAIN, source)
    assert outcome.verdict is verdict, outcome
    assert (outcome.reason == "run.unstable") is (verdict is Verdict.UNSTABLE)


@pytest.mark.bench
def test_a_race_that_is_mostly_right_is_found_by_asking_again(cpu_bench):
    """Right on the first answer to any content, wrong on the second to the same."""
    forward = (
        "key = float(x[0].sum())\nself.seen = getattr(self, 'seen', set())\n"
        "y = F.gelu(x[0])\nif key in self.seen: y = y + 1\nself.seen.add(key)\nreturn y"
    )
    assert ask(cpu_bench, PLAIN, answer(PLAIN, forward)).verdict is Verdict.UNSTABLE


ARGMAX = problem("return x[0].argmax(1)")
LAST = "flipped = x[0].flip(1).argmax(1)\nreturn x[0].shape[1] - 1 - flipped"


@pytest.mark.bench
def test_a_tie_rule_left_out_is_found(cpu_bench):
    assert ask(cpu_bench, ARGMAX, answer(ARGMAX)).verdict is Verdict.PASS
    assert ask(cpu_bench, ARGMAX, answer(ARGMAX, LAST)).verdict is Verdict.WRONG
    rounding = problem("return torch.round(x[0])")
    away = answer(rounding, "return torch.sign(x[0]) * torch.floor(x[0].abs() + 0.5)")
    assert ask(cpu_bench, rounding, answer(rounding)).verdict is Verdict.PASS
    assert ask(cpu_bench, rounding, away).verdict is Verdict.WRONG


@pytest.mark.bench
def test_an_order_that_the_reference_leaves_open_may_differ(cpu_bench):
    source = problem("return torch.topk(x[0], 3)")
    other = answer(
        source, "v, i = x[0].sort(dim=1, descending=True, stable=True)\nreturn v[:, :3].clone(), i[:, :3].clone()"
    )
    assert ask(cpu_bench, source, other).verdict is Verdict.PASS


KAHAN = problem(  # rows and steps so that only the offset family takes a running sum past its limit
    "s = torch.zeros(64)\nc = torch.zeros(64)\n"
    "for i in range(x[0].shape[1]):\n    y = x[0][:, i] - c\n    t = s + y\n    c = (t - s) - y\n    s = t\nreturn s",
    inputs="torch.randn(64, 64)",
)
RUNNING = "s = torch.zeros(x[0].shape[0])\nfor i in range(x[0].shape[1]):\n    s = s + x[0][:, i]\nreturn s"


@pytest.mark.bench
def test_a_compensation_left_out_is_found_where_the_reference_has_one(cpu_bench):
    assert ask(cpu_bench, KAHAN, answer(KAHAN)).verdict is Verdict.PASS
    for honest in ("return x[0].double().sum(1).float()", "return x[0].sum(1)"):  # torch sums in pairs
        assert ask(cpu_bench, KAHAN, answer(KAHAN, honest)).verdict is Verdict.PASS
    lost = ask(cpu_bench, KAHAN, answer(KAHAN, RUNNING))
    assert lost.verdict is Verdict.WRONG and "offset" in lost.message
    plain = problem("return x[0].sum(1)")
    assert ask(cpu_bench, plain, answer(plain, RUNNING)).verdict is Verdict.PASS


@pytest.mark.bench
def test_an_easy_path_by_a_look_at_the_input_is_found(cpu_bench):
    lazy = "return F.gelu(x[0]) if bool((x[0].abs() < 6).all()) else x[0].clamp_min(0)"
    assert ask(cpu_bench, PLAIN, answer(PLAIN, lazy)).verdict is Verdict.WRONG


@pytest.mark.bench
def test_indices_at_the_edge_of_their_range_are_asked(cpu_bench):
    source = problem(
        "return self.e(x[0])", inputs="torch.randint(0, 50, (300,))", init="self.e = torch.nn.Embedding(50, 8)"
    )
    assert ask(cpu_bench, source, answer(source)).verdict is Verdict.PASS
    rare = answer(source, "return self.e(x[0]) * float(x[0].bincount().max() < 60)")
    assert ask(cpu_bench, source, rare).verdict is Verdict.WRONG


@pytest.mark.bench
def test_parameters_that_only_take_small_changes_are_changed_a_little(cpu_bench):
    source = problem("return x[0] * torch.log(self.w)", init="self.w = torch.nn.Parameter(torch.full((64,), 2.0))")
    folded = answer(source, "self.k = getattr(self, 'k', torch.log(self.w))\nreturn x[0] * self.k")
    assert ask(cpu_bench, source, answer(source)).verdict is Verdict.PASS
    assert ask(cpu_bench, source, folded).verdict is Verdict.STATE_VIOLATION


@pytest.mark.bench
def test_a_buffer_that_is_part_of_the_module_stays(cpu_bench):
    source = problem(
        "return (x[0] @ x[0].t()).masked_fill(self.m == 0, 0.0)",
        init="self.register_buffer('m', torch.tril(torch.ones(16, 16)))",
    )
    knows = answer(source, "return torch.tril(x[0] @ x[0].t())")
    assert ask(cpu_bench, source, knows).verdict is Verdict.PASS


@pytest.mark.bench
def test_an_output_without_an_element_cannot_be_judged(cpu_bench):
    for nothing in ("return x[0][:0]", "return None", "return []"):
        outcome = ask(cpu_bench, problem(nothing), answer(problem(nothing)))
        assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.empty")
