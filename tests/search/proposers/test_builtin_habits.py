"""The dialect "mixed": mistakes that the judge really finds, made at their rates, and kept away by rules."""

from __future__ import annotations

from functools import cache

import pytest

from adaexplore_site.core.audit import ActionRefused
from judge.bench.runner import Bench
from judge.values import Job, ProblemSpec, Verdict
from memory.patterns.table import BY_CODE as KNOWN
from memory.prompting.assignment import PromptRule
from search.proposers import get
from search.proposers.builtin import BuiltinProposer
from search.proposers.builtin.proposer import BY_CODE, HABITS, Habit, spoken
from search.proposers.protocol import Task
from search.runs.services import proposer_check
from tests import mistaken_site
from tests.search.builtin_graphs import LINEAR_SOURCE, SOFTMAX_SOURCE, linear_graph, softmax_graph
from tests.search.proposers.test_builtin_proposer import task

MIXED = {"dialect": "mixed"}
ALL = tuple(PromptRule("", habit.code) for habit in HABITS)
SAID = {  # part of what the judge on the interpreter says of each mistake
    "math-tanh": "module 'triton.language.math' has no attribute 'tanh'",
    "tl-libdevice": "module 'triton.language' has no attribute 'libdevice'",
    "tl-relu": "module 'triton.language' has no attribute 'relu'",
    "torch-in-kernel": "Unsupported function referenced: <built-in method",
    "arange-not-power-of-two": "must be a power of 2",
    "arange-not-constexpr": "arange's arguments must be of type tl.constexpr",
    "load-without-mask": "past the end of",
    "reduce-dim": "got an unexpected keyword argument 'dim'",
    "store-other": "got an unexpected keyword argument 'other'",
    "zeros-without-dtype": "missing a required argument: 'dtype'",
    "max-of-two-values": "tl.max(",
    "continue-in-kernel": "unsupported AST node type: Continue",
    "missing-argument": "missing 1 required positional argument: 'meta'",
    "data-ptr": "Unsupported ptr type",
    "launch-keyword-in-brackets": "invalid syntax",
    "launch-without-grid": "got an unexpected keyword argument 'num_warps'",
}
TANH = """import torch
import torch.nn.functional as F


class Model(torch.nn.Module):
    def forward(self, x):
        return F.relu(torch.tanh(x) * 2)



def get_inputs():
    return [torch.randn(7, 75)]


def get_init_inputs():
    return []
"""


@cache
def kernels() -> tuple[str, ...]:
    """Right ones of several structures."""
    asked = [task(problem, number=number) for problem in ("softmax", "linear") for number in (1, 2, 3, 6)]
    return tuple(BuiltinProposer().propose(one).source for one in asked)


def codes(kernel: str, seed: int, rules: tuple[PromptRule, ...] = ()) -> set[str]:
    return set(spoken(kernel, seed, rules)[1])


def test_only_the_mixed_dialect_makes_mistakes_and_its_summary_names_them():
    proposer = BuiltinProposer()
    plain = [proposer.propose(task(seed=seed)) for seed in range(8)]
    mixed = [proposer.propose(task(seed=seed, options=MIXED)) for seed in range(8)]
    assert not any("; with " in reply.summary for reply in plain)
    assert any("; with " in reply.summary for reply in mixed)
    assert mixed == [proposer.propose(task(seed=seed, options=MIXED)) for seed in range(8)]


def test_a_site_of_tests_has_the_built_in_proposer_make_mistakes_in_every_search(settings):
    settings.SEARCH_PROPOSERS = mistaken_site.SEARCH_PROPOSERS
    assert get("builtin").propose(task(seed=3)) == BuiltinProposer().propose(task(seed=3, options=MIXED))


def test_each_mistake_is_made_at_its_rate():
    made = [codes(kernels()[0], seed) for seed in range(2000)]
    for code in ("reduce-dim", "tl-libdevice", "load-without-mask"):
        share = sum(code in one for one in made) / len(made)
        assert abs(share - BY_CODE[code].rate) < 0.03
    assert 0.5 < sum(map(bool, made)) / len(made) < 0.75


@pytest.mark.parametrize("habit", HABITS, ids=lambda habit: habit.code)
def test_a_rule_takes_away_its_own_mistake_and_no_other(habit: Habit):
    by_code = PromptRule("Say it otherwise.", habit.code)
    by_words = PromptRule(f"You cannot {' and '.join(habit.words[0])} here.")
    for kernel in kernels():
        for seed in range(40):
            free = codes(kernel, seed)
            assert codes(kernel, seed, (by_code,)) == codes(kernel, seed, (by_words,)) == free - {habit.code}


def test_a_rule_about_something_else_takes_nothing_away():
    lessons = (PromptRule("Do not use cooperative groups."), PromptRule("x", "unknown-code"))
    assert all(codes(kernels()[0], seed) == codes(kernels()[0], seed, lessons) for seed in range(60))


def test_a_small_step_writes_the_kernel_anew_and_so_mends_what_was_wrong():
    base = BY_CODE["reduce-dim"].change(kernels()[0])
    assert "dim=1" in base
    asked = task(kind="small", base=base, options=MIXED, rules=ALL)
    assert "dim=1" not in BuiltinProposer().propose(asked).source


def test_a_search_with_an_unknown_dialect_is_refused():
    for proposer, dialect in (("builtin", "klingon"), ("manual", "mixed")):
        with pytest.raises(ActionRefused, match="dialect"):
            proposer_check(proposer, {"dialect": dialect})


@pytest.mark.bench
def test_the_real_judge_finds_every_mistake_and_passes_the_kernel_without_it(interpreter_bench: Bench):
    """With a mistake the judge says what the table says; with all rules shown kernels pass."""
    problems = ((TANH, None), (SOFTMAX_SOURCE, softmax_graph()), (LINEAR_SOURCE, linear_graph()))
    found = [(source, kernel) for source, graph in problems for kernel in _kernels(interpreter_bench, source, graph)]
    for habit in HABITS:
        source, kernel = next(pair for pair in found if habit.change(pair[1]) != pair[1])
        judged = _judged(interpreter_bench, source, habit.change(kernel))
        assert judged.verdict not in (Verdict.PASS, Verdict.LOST, Verdict.UNSUPPORTED), habit.code
        assert SAID[habit.code] in judged.message, (habit.code, judged.message)
    for source, kernel in found[::9]:
        assert _judged(interpreter_bench, source, kernel).verdict == Verdict.PASS


def _judged(bench: Bench, source: str, kernel: str):
    return bench.evaluate(Job("habit", ProblemSpec(source), kernel, beat=1e9))


def _kernels(bench: Bench, source: str, graph: dict | None) -> list[str]:
    graph = graph or bench.admit(ProblemSpec(source)).to_json()["graph"]
    made = []
    for number in range(1, 14):
        asked = Task("large", "p", source, graph, {}, (), 5, number, rules=ALL, options=MIXED)
        kernel = BuiltinProposer().propose(asked).source
        assert spoken(kernel, asked.seed, ALL) == (kernel, ())
        made.append(kernel)
    return made


def test_the_known_errors_that_warn_of_a_mistake_exist_and_no_word_warns_of_another():
    for habit in HABITS:
        assert all(cause in KNOWN for cause in habit.causes), habit.code
    relu = PromptRule("Do not use triton.language.relu, which this Triton does not have; use tl.maximum(x, 0) instead.")
    assert [habit.code for habit in HABITS if habit.named_by(relu)] == ["tl-relu"]
