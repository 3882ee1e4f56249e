"""The problems of judge_memory: each runs, on tensors without content, and is as large as its name says."""

from __future__ import annotations

import pytest
import torch
from torch.utils._pytree import tree_leaves

from judge.bench.foreign.sources import check_source
from judge.values import Verdict
from tests.benchmarks.judge_memory import judged, line
from tests.benchmarks.large_problems import GB, Large, large_problems
from tests.judge.rounds_bench import ask

PROBLEMS = large_problems()


@pytest.mark.parametrize("name", PROBLEMS)
def test_a_problem_runs_and_its_largest_tensor_has_the_size_in_its_name(name):
    one = PROBLEMS[name]
    check_source(one.source, needs=("Model", "get_inputs", "get_init_inputs"), max_bytes=1 << 16)
    check_source(one.candidate, needs=("ModelNew",), max_bytes=1 << 16)
    space: dict = {}
    exec(compile(one.source, name, "exec"), space)
    with torch.device("meta"), torch.no_grad():
        inputs = space["get_inputs"]()
        found = space["Model"]()(*inputs)
    largest = max(4 * tensor.numel() for tensor in tree_leaves((inputs, found)))
    assert 0.7 * one.size_gb * GB <= largest <= 1.3 * one.size_gb * GB or one.group == "attention"


def test_every_size_class_and_kind_is_there_and_the_first_cover_all_kinds():
    groups = {one.group for one in PROBLEMS.values()}
    assert len(PROBLEMS) >= 60 and len(groups) == 14
    assert {one.group for one in list(PROBLEMS.values())[:28]} == groups
    sizes = [one.size_gb for one in PROBLEMS.values()]
    assert max(sizes) >= 10 and min(sizes) <= 0.1 and sum(size >= 6 for size in sizes) > 20


def test_the_candidate_of_a_problem_is_right_and_runs_a_kernel_of_its_own(interpreter_bench):
    small = Large("small", "element-wise", 64e-6, "torch.sin(x[0]), torch.cos(x[0])", "torch.randn(N)")
    outcome = ask(interpreter_bench, small.source, small.candidate)
    assert outcome.verdict is Verdict.PASS and [row["name"] for row in outcome.kernels] == ["copy_kernel"]
    row = {"name": "small", "state": "admitted", "judge_s": 1.0, **judged(outcome)}
    assert row["verdict"] == "pass" and "admitted: pass" in line(row) and "whole, planned" in line(row)
