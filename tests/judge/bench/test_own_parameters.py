"""A kernel that makes its own parameters constructs its model anew for others: how often, and what that still finds."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch

from judge.bench.foreign.loading import load_problem
from judge.bench.judging import reference as references
from judge.bench.judging.asking import Questions
from judge.bench.judging.families import FAMILIES
from judge.bench.judging.reference import KEPT_SEEDS, Reference
from judge.values import Audit, Job, Limits, Policy, ProblemSpec, Verdict
from tests.judge.rounds_bench import answer, ask, problem

LAYER = "self.l = torch.nn.Linear(64, 8)"
LINEAR = problem("return self.l(x[0])", init=LAYER)
POLICY = Policy(equal_seeding=True)
COUNTED = "\n        global made\n        made = globals().get('made', 0) + 1\n        assert made <= 2, 'once more'"
FOLDS = answer(LINEAR, "return F.linear(x[0], self.l.weight, self.l.bias) * 2").replace(
    LAYER, f"{LAYER}\n        self.l.weight.data.mul_(0.5)\n        self.l.bias.data.mul_(0.5){COUNTED}"
)
UNNAMED = answer(LINEAR, "return F.linear(x[0], self.w, self.b)").replace(
    LAYER, f"l = torch.nn.Linear(64, 8)\n        self.w, self.b = l.weight.data, l.bias.data{COUNTED}"
)
REMEMBERS = UNNAMED.replace("made <= 2", "True").replace(
    "self.w, self.b = l.weight.data, l.bias.data",
    "global kept\n        kept = globals().get('kept', (l.weight.data, l.bias.data))\n        self.w, self.b = kept",
)


@pytest.fixture
def reference(tmp_path: Path) -> Reference:
    return Reference(load_problem(LINEAR, None, tmp_path), "cpu", POLICY)


@pytest.mark.bench
@pytest.mark.parametrize("candidate", [FOLDS, UNNAMED], ids=["folds", "has others"])
def test_it_is_constructed_once_more_and_no_oftener_however_it_is_judged(cpu_bench, candidate):
    found = ask(cpu_bench, LINEAR, candidate, policy=POLICY, timing=True)
    assert found.verdict is Verdict.PASS and found.speedup is not None, found
    job = Job("best", ProblemSpec(LINEAR, policy=POLICY), candidate, limits=Limits(), timing=False)
    best = cpu_bench.evaluate(job)
    assert (best.verdict, best.audit) == (Verdict.PASS, Audit.PASSED), best


@pytest.mark.bench
def test_one_that_keeps_the_parameters_of_its_first_construction_is_wrong(cpu_bench):
    found = ask(cpu_bench, LINEAR, REMEMBERS, policy=POLICY)
    assert (found.verdict, found.reason) == (Verdict.STATE_VIOLATION, "state.stale_params"), found


@pytest.mark.bench
def test_the_next_kernel_is_timed_with_the_first_parameters_again(cpu_bench):
    for candidate in (FOLDS, answer(LINEAR), FOLDS):
        found = ask(cpu_bench, LINEAR, candidate, policy=POLICY, timing=True)
        assert found.verdict is Verdict.PASS and found.speedup is not None, found


def test_constructions_give_their_parameters_by_turns(reference):
    made = [reference.reseeded() for _ in range(2 * KEPT_SEEDS)]
    seeds = [state.seed for state in made]
    assert len(set(seeds)) == KEPT_SEEDS and seeds[:KEPT_SEEDS] == seeds[KEPT_SEEDS:]
    assert all(one != other for one, other in pairwise(seeds))
    assert made[0] is made[KEPT_SEEDS] and not torch.equal(made[0]["l.weight"], made[1]["l.weight"])


def test_parameters_of_a_large_model_are_made_anew(reference, monkeypatch):
    monkeypatch.setattr(references, "KEPT_BYTES", KEPT_SEEDS * 4 * (64 * 8 + 8) - 1)
    assert len({reference.reseeded().seed for _ in range(3)}) == 3


def test_what_was_drawn_with_other_parameters_goes_once_and_what_is_drawn_later_stays(reference):
    asked, other = Questions(reference), reference.reseeded()
    asked.first(None)
    assert asked.draw_ahead() and not asked.seeded
    asked.state, asked.previous, asked.left_out = other, other, [("huge", "too large")]
    asked.follow_seeds()
    assert asked.seeded and asked.state is reference.first
    assert (asked.previous, asked.left_out, list(asked._drawn), asked._rest) == (None, [], [], None)
    assert asked.draw_ahead()
    asked.previous, asked.left_out = other, [("huge", "too large")]
    kept = list(asked._drawn)
    asked.follow_seeds()
    assert list(asked._drawn) == kept and asked.previous is other and asked.left_out and asked._rest is not None


def test_parameters_of_seeds_change_once_in_all_rounds(reference):
    asked = Questions(reference)
    first = asked.first(None)
    drawn = [asked.draw_ahead() for _ in range(3)]
    assert all(drawn)
    asked.follow_seeds()
    states = [question.state for _, question in asked.rounds()]
    assert len(states) >= len(FAMILIES) - 1
    assert len({id(state) for state in states}) == 1 and states[0].seed not in (None, first.state.seed)
    other = Questions(reference)
    other.follow_seeds()
    second = other.reseeded(first)
    assert second.state.seed not in (None, first.state.seed) and second.family == first.family
    assert {id(question.state) for _, question in other.rounds()} == {id(second.state)}
