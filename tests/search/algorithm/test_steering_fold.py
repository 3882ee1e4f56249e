"""Steering as a value: what acts fold to, what undoing gives back, and that every policy keeps its promises."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.algorithm.decide import decide, node_rng
from search.algorithm.params import POLICY_NAMES, SearchParams
from search.algorithm.steering import (
    BOOST,
    BUDGET,
    FORCE,
    FREE,
    INJECT,
    NOTE,
    PARAMS,
    PIN,
    PRUNE,
    RESTORE,
    Steering,
    SteeringAction,
)
from search.algorithm.tree import LARGE, SMALL, Tree
from tests.search.trees import grow

numbers = st.integers(1, 8)
acts = st.one_of(
    st.tuples(st.just(PIN), st.builds(lambda n, q: {"node": n, "quota": q}, numbers, st.integers(1, 4))),
    st.tuples(st.just(PRUNE), st.builds(lambda n: {"node": n}, numbers)),
    st.tuples(st.just(RESTORE), st.builds(lambda n: {"node": n}, numbers)),
    st.tuples(st.just(BOOST), st.builds(lambda n, b: {"node": n, "boost": b}, numbers, st.floats(-2, 2))),
    st.tuples(st.just(FORCE), st.builds(lambda k: {"kind": k}, st.sampled_from([LARGE, SMALL]))),
    st.tuples(st.just(NOTE), st.builds(lambda n: {"node": n, "text": "x"}, numbers)),
    st.tuples(st.just(PARAMS), st.builds(lambda w: {"params": {"w": w}}, st.floats(0, 5))),
)


def folded(given: list[tuple[str, dict]]) -> Steering:
    return Steering(tuple(SteeringAction(seq, verb, **fields) for seq, (verb, fields) in enumerate(given, start=1)))


@given(st.lists(acts, max_size=12), st.randoms())
def test_when_every_act_is_undone_in_any_order_nothing_is_left(given, rng):
    steering = folded(given)
    seqs = list(range(1, len(given) + 1))
    rng.shuffle(seqs)
    for seq in seqs:
        steering = steering.without(seq)
    assert steering.effects == FREE.effects
    assert steering.params(SearchParams()) == SearchParams()


@given(st.lists(acts, min_size=1, max_size=12))
def test_undoing_the_last_act_gives_back_what_was_before_it(given):
    before, after = folded(given[:-1]), folded(given).without(len(given))
    assert (after.effects, after.params(SearchParams())) == (before.effects, before.params(SearchParams()))


@given(st.lists(acts, max_size=10), st.lists(acts, max_size=10))
def test_marks_depend_on_the_acts_alone_and_not_on_what_the_tree_was_marked_with(one, other):
    tree = grow(*[(k // 2, LARGE, 0.5, 1.0) for k in range(8)])
    folded(one).mark(tree)
    folded(other).mark(tree)
    fresh = grow(*[(k // 2, LARGE, 0.5, 1.0) for k in range(8)])
    folded(other).mark(fresh)
    marks = [[(branch.closed, branch.boost) for branch in each.branches.values()] for each in (tree, fresh)]
    assert marks[0] == marks[1]


@pytest.mark.parametrize("policy", POLICY_NAMES)
@given(given=st.lists(acts, max_size=8), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_under_every_policy_pruned_is_never_selected_and_the_oldest_pin_is_served(policy, given, seed):
    tree = grow(*[(k // 2, LARGE if k % 3 else SMALL if k > 1 else LARGE, 0.5 + k / 20, 1.0) for k in range(8)])
    steering, params = folded(given), SearchParams(policy=policy)
    for number in range(9, 30):
        decision = decide(tree, params, node_rng(seed, number), steering)
        parent = tree[decision.parent]
        path = {branch.number for branch in parent.up()}
        assert path.isdisjoint(steering.pruned)
        served = next((pin for pin in steering.pins if not steering.pruned & above(tree, pin.node)), None)
        assert decision.steered.get("pin") == (served.seq if served else None)
        assert served is None or served.node in path
        steering = steering.used(number, decision.uses)
        tree.reserve(number, decision.parent, decision.kind)
        if number % 3:
            tree.tell(number, 0.4 + (number * seed % 7) / 10, speedup=1.0)


def above(tree: Tree, number: int) -> set[int]:
    return {branch.number for branch in tree[number].up()}


def test_a_forced_step_waits_until_it_is_possible_and_holds_up_nobody():
    tree = Tree()
    steering = folded([(FORCE, {"kind": SMALL}), (FORCE, {"kind": LARGE, "node": 1})])
    first = decide(tree, SearchParams(), node_rng(1, 1), steering)
    assert (first.parent, first.kind, first.uses) == (0, LARGE, ())
    tree = grow((0, LARGE, 0.5, 1.0))
    second = decide(tree, SearchParams(), node_rng(1, 2), steering)
    assert (second.parent, second.kind, second.uses) == (1, LARGE, (2,))
    third = decide(tree, SearchParams(w=0.0), node_rng(1, 3), steering.used(2, second.uses))
    assert (third.parent, third.kind, third.uses) == (1, SMALL, (1,))


@pytest.mark.parametrize(
    "wrong",
    [
        {"verb": "dance", "node": 1},
        {"verb": PIN, "node": 1, "quota": 0},
        {"verb": PRUNE},
        {"verb": INJECT},
        {"verb": FORCE, "kind": "tiny"},
        {"verb": BOOST, "node": 1, "boost": float("nan")},
    ],
)
def test_an_act_that_makes_no_sense_cannot_be_made(wrong):
    with pytest.raises(ValueError):
        SteeringAction(seq=1, **wrong)
    assert SteeringAction(seq=1, verb=BUDGET, steps=3).steps == 3
