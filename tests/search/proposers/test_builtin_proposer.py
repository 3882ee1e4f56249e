"""Steps of the built-in proposer: deterministic, never a repetition, one field at a time."""

from __future__ import annotations

import ast
import dataclasses
import subprocess
import sys
from typing import Any

import pytest

from judge.values import Gradients, canonical_hash
from search.proposers.builtin import BuiltinProposer
from search.proposers.builtin.plans import SIZES, STRUCTURE, Plan, read_plan
from search.proposers.protocol import ContextKernel, Reply, Task
from tests.search.builtin_graphs import LINEAR_SOURCE, SOFTMAX_SOURCE, linear_graph, other_graph, softmax_graph

PROPOSER = BuiltinProposer()
PROBLEMS = {"linear": (LINEAR_SOURCE, linear_graph()), "softmax": (SOFTMAX_SOURCE, softmax_graph())}


def task(problem: str = "softmax", kind: str = "large", seed: int = 5, number: int = 3, **fields: Any) -> Task:
    source, graph = PROBLEMS[problem]
    facts: dict[str, Any] = {"problem_title": problem, "problem_source": source, "graph": graph, "device": {}}
    facts |= {"context_kernels": (), "kind": kind, "seed": seed, "number": number}
    return Task(**{**facts, **fields})


def propose(*args: Any, **fields: Any) -> Reply:
    return PROPOSER.propose(task(*args, **fields))


def plan_of(source: str) -> Plan:
    plan = read_plan(source)
    assert plan is not None
    return plan


def shown(*sources: str) -> tuple[ContextKernel, ...]:
    return tuple(ContextKernel(at, source, "pass") for at, source in enumerate(sources))


def changed(before: Plan, after: Plan) -> list[str]:
    names = [field.name for field in dataclasses.fields(Plan)]
    return [name for name in names if getattr(before, name) != getattr(after, name)]


@pytest.mark.parametrize("problem", PROBLEMS)
def test_same_task_gives_the_same_text_and_another_seed_another(problem: str) -> None:
    assert propose(problem) == propose(problem)
    assert len({propose(problem, seed=seed).source for seed in range(6)}) > 1


def test_the_first_step_of_a_run_is_the_best_guess_whatever_the_seed() -> None:
    first = {propose("linear", number=1, seed=seed).source for seed in range(5)}
    assert len(first) == 1
    plan = plan_of(first.pop())
    assert (plan.fusion, plan.matmul) == ("full", "torch")


@pytest.mark.parametrize("problem", PROBLEMS)
def test_a_small_step_changes_exactly_one_size(problem: str) -> None:
    base = propose(problem, number=1).source
    for seed in range(12):
        reply = propose(problem, "small", seed=seed, base=base, context_kernels=shown(base))
        fields = changed(plan_of(base), plan_of(reply.source))
        assert len(fields) == 1
        assert fields[0] in SIZES
        assert canonical_hash(reply.source) != canonical_hash(base)


def test_large_steps_walk_through_structures_without_repeating_one_that_is_shown() -> None:
    sources: list[str] = []
    for seed in range(15):
        sources.append(propose("softmax", seed=seed, context_kernels=shown(*sources)).source)
    structures = {tuple(getattr(plan_of(source), name) for name in STRUCTURE) for source in sources}
    assert len({canonical_hash(source) for source in sources}) == 15
    assert len(structures) == 15


def test_small_steps_never_return_a_shown_kernel() -> None:
    base = propose("softmax", number=1).source
    sources = [base]
    for _ in range(10):
        sources.append(propose("softmax", "small", seed=1, base=base, context_kernels=shown(*sources)).source)
    assert len({canonical_hash(source) for source in sources}) == 11


def test_a_candidate_keeps_the_constructor_and_what_it_needs_and_nothing_else() -> None:
    tree = ast.parse(propose("linear", number=1).source)
    names = {node.name for node in tree.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
    assert {"ModelNew", "scaled"} <= names
    assert not names & {"Model", "get_inputs", "get_init_inputs"}
    text = ast.unparse(tree)
    assert "FEATURES = 32" in text
    assert "UNUSED" not in text
    assert "super().__init__()" in text
    assert "nn.Linear(features, FEATURES)" in text


def test_the_summary_says_what_stayed_in_torch() -> None:
    reply = propose("linear", number=1)
    assert "left to torch: aten.linear" in reply.summary
    assert "# Left to torch: aten.linear." in reply.source


def test_a_foreign_kernel_gets_one_constant_changed() -> None:
    base = "import triton\n\nBLOCK = 256\n\n\nclass ModelNew:\n    def run(self, k):\n        k[(1,)](num_warps=4)\n"
    reply = propose("softmax", "small", base=base, context_kernels=shown(base))
    pairs = zip(base.splitlines(), reply.source.splitlines(), strict=True)
    assert len([1 for before, after in pairs if before != after]) == 1
    assert "foreign kernel" in reply.summary


def test_a_foreign_kernel_without_constants_gets_a_kernel_of_our_own() -> None:
    reply = propose("softmax", "small", base="class ModelNew:\n    pass\n")
    assert read_plan(reply.source) is not None


def test_without_a_graph_the_reason_says_so() -> None:
    assert propose(graph=None).reason == "proposal.no_graph"


def test_it_writes_no_kernel_for_a_problem_that_asks_for_gradients() -> None:
    reply = propose("softmax", gradients=Gradients.INPUTS)
    assert reply.reason == "proposal.unsupported_graph" and "writes no backward" in reply.message


def test_a_graph_without_a_fusible_operator_is_refused_with_the_reason() -> None:
    reply = propose(graph=other_graph("aten.cumsum.default"))
    assert reply.reason == "proposal.exhausted"
    assert "no operator of this graph can become a kernel" in reply.message


def test_an_operator_outside_aten_is_named() -> None:
    reply = propose(graph=other_graph("custom.thing.default"))
    assert reply.reason == "proposal.unsupported_graph"
    assert "custom.thing.default" in reply.message


def test_a_damaged_plan_line_counts_as_foreign() -> None:
    source = propose("softmax", number=1).source
    assert read_plan(source.replace('"block"', '"brick"')) is None
    assert read_plan("# plan: {") is None


def test_importing_the_proposer_brings_no_torch() -> None:
    code = "import sys, search.proposers.builtin; assert not {'torch', 'triton'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=300)
