"""Derived sealed cases: other sizes, layouts and values, each answered by the reference before it counts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

from judge.bench.admission.sealing import derived_cases, other_constants, primes_near
from judge.bench.foreign.loading import LoadedProblem, load_problem
from judge.bench.judging.reference import Reference
from judge.bench.judging.variants import applied, change_of
from judge.values import DEFAULT_POLICY, SealedCase

PROBLEM = """
import torch
ROWS, COLUMNS = {sizes}
class Model(torch.nn.Module):
    def __init__(self, *sizes):
        super().__init__()
    def forward(self, *x):
        return {forward}
def get_inputs():
    return [{inputs}]
def get_init_inputs():
    return [ROWS, COLUMNS]
def get_cases():
    return {{"gpu": {{"ROWS": 24, "COLUMNS": 17}}}}
"""


def problem(
    folder: Path, forward: str, *, inputs="torch.randn(ROWS, COLUMNS)", init="", sizes="24, 16"
) -> LoadedProblem:
    source = PROBLEM.format(forward=forward, inputs=inputs, init=init or "pass", sizes=sizes)
    return load_problem(source, None, folder)


def derived(loaded: LoadedProblem, seed: int = 7, **limits) -> list[SealedCase]:
    return derived_cases(loaded, "cpu", DEFAULT_POLICY, seed, **limits)


def shapes(loaded: LoadedProblem, case: SealedCase) -> list[tuple[int, ...]]:
    """Of the inputs under `case`, whose constants stay set in the module."""
    under = applied(loaded, case)
    assert under is not None
    reference = Reference(under, "cpu", DEFAULT_POLICY)
    return [tuple(item.shape) for item in reference.inputs("given", 1)]


def test_one_seed_gives_the_same_cases_and_another_gives_others(tmp_path):
    loaded = problem(tmp_path, "torch.softmax(x[0], 1)")
    first = derived(loaded)
    assert first == derived(loaded) and all(case.derived for case in first)
    assert any(first != derived(loaded, seed) for seed in range(8, 12))
    assert (loaded.module.ROWS, loaded.module.COLUMNS) == (24, 16)


def test_sizes_layouts_and_values_are_all_among_them(tmp_path):
    cases = derived(problem(tmp_path, "torch.softmax(x[0], 1)"))
    assert len(cases) == 4
    assert sum(bool(case.constants) for case in cases) == 2
    assert {case.change.split()[0] for case in cases if case.change} == {"strided", "special"}


def test_a_reference_that_must_divide_gets_sizes_it_can_divide(tmp_path):
    loaded = problem(tmp_path, "x[0].view(ROWS, 8, -1).mean(2)", sizes="6, 64")
    for seed in range(4):
        assert all(case.constants.get("COLUMNS", 64) % 8 == 0 for case in derived(loaded, seed))
    assert any("COLUMNS" in case.constants for seed in range(4) for case in derived(loaded, seed))


def test_constants_that_must_agree_change_together(tmp_path):
    loaded = problem(tmp_path, "x[0] + x[0].T", sizes="12, 12")
    sizes = [case.constants for case in derived(loaded) if case.constants]
    assert sizes and all(case.get("ROWS") == case.get("COLUMNS") != 12 for case in sizes)


def test_what_get_cases_declares_is_no_secret():
    groups = other_constants({"N": 8, "k": 3}, {"gpu": {"N": 7}, "more": {"N": 11}}, random.Random(1))
    found = [case for group in groups for case in group]
    assert found and all(case.constants["N"] not in (7, 8, 11) and "k" not in case.constants for case in found)


def test_a_module_that_writes_its_sizes_out_gets_other_inputs(tmp_path):
    loaded = problem(tmp_path, "x[0] * x[1]", inputs="torch.randn(10, 6), torch.randn(10, 6)", sizes="1, 1")
    cases = derived(loaded)
    first = next(case for case in cases if case.change.startswith("resized"))
    assert shapes(loaded, first)[0] != (10, 6) and len(set(shapes(loaded, first))) == 1


def test_arguments_of_one_shape_are_broadcast_where_the_reference_broadcasts(tmp_path):
    adds = problem(tmp_path, "x[0] + x[1]", inputs="torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)")
    one = next(case for case in derived(adds) if case.change.startswith("broadcast"))
    assert shapes(adds, one) in ([(24, 16), (1, 16)], [(24, 16), (24, 1)])
    stacks = problem(tmp_path, "torch.stack(x)", inputs="torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)")
    assert not any(case.change.startswith("broadcast") for case in derived(stacks))


def test_values_that_overflow_the_reference_are_tried_smaller(tmp_path):
    def special(forward: str) -> set[str]:
        return {case.change for case in derived(problem(tmp_path, forward)) if case.change.startswith("special")}

    assert special("x[0] * 2") == {"special 10000"}
    assert special("torch.exp(x[0])") == {"special 30"}


def test_no_case_is_much_larger_than_the_evaluated_one(tmp_path):
    loaded = problem(tmp_path, "x[0] * 2", inputs="torch.randn(ROWS * COLUMNS * (100 if ROWS > 24 else 1))")
    for seed in range(4):
        for case in derived(loaded, seed):
            assert case.constants.get("ROWS", 24) <= 24


def test_what_the_reference_cannot_answer_is_no_case(tmp_path):
    written_out = problem(tmp_path, "x[0].view(24, 16) + 1 / (1 - (x[0].stride(0) != 16))")
    assert {case.change.split()[0] for case in derived(written_out)} == {"special"}


def test_no_case_is_looked_for_once_time_is_up(tmp_path):
    now = iter([0.0, *[100.0] * 50])
    assert derived(problem(tmp_path, "x[0] * 2"), clock=lambda: next(now)) == []


def test_primes_lie_on_both_sides():
    assert (primes_near(16), primes_near(7), primes_near(8192)) == ([13, 17], [5, 11], [8191, 8209])


@pytest.mark.parametrize("text", ["", "sorted", "strided 1", "special", "resized 1", "resized a b", "broadcast 0"])
def test_an_unknown_change_is_refused(text):
    with pytest.raises(ValueError, match="is no change"):
        change_of(text)


def test_special_numbers_leave_the_argument_and_most_values_alone():
    torch.manual_seed(3)
    x, numbers = torch.randn(1000), torch.arange(4)
    made = change_of("special 1000")([x, numbers])
    assert (made[0] == 1000).any() and (made[0] == 0).any() and 600 < int((made[0] == x).sum()) < 1000
    assert made[1] is numbers and not (x == 1000).any()
