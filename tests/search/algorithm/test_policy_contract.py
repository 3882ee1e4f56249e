"""What every policy keeps to, whatever the tree: one suite, run for each of them."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.algorithm.decide import decide
from search.algorithm.params import POLICY_NAMES, SearchParams
from search.algorithm.policies import POLICIES
from search.algorithm.tree import LARGE, SMALL, Tree
from tests.search.trees import grow

policies = pytest.mark.parametrize("name", POLICY_NAMES)
places = st.integers(0, 10**6)
nodes = st.lists(
    st.tuples(
        places,  # below which of those there are
        st.sampled_from(["told", "failed", "pending", "closed"]),
        st.floats(0.1, 30),
        st.floats(-1, 1),
    ),
    max_size=40,
)


def plant(rows: list[tuple[int, str, float, float]]) -> Tree:
    """A tree of these nodes; a closed node closes all that is added below it."""
    tree = Tree(log=True)
    for number, (place, state, speedup, boost) in enumerate(rows, start=1):
        above = tree[place % number]
        if not above.told:
            above = tree.root
        branch = tree.reserve(number, above.number, LARGE if above.is_root else SMALL)
        branch.closed, branch.boost = state == "closed" or above.closed, boost
        if state != "pending":
            failed = state == "failed"
            tree.tell(number, 0.0 if failed else 0.5, speedup=None if failed else speedup, cell=str(place % 3))
    return tree


def test_every_name_has_its_policy():
    assert set(POLICIES) == set(POLICY_NAMES)


@policies
@settings(deadline=None)
@given(rows=nodes, place=places, seed=places)
def test_a_policy_selects_a_told_open_node_from_its_start_down(name, rows, place, seed):
    tree = plant(rows)
    starts = [branch for branch in tree.branches.values() if branch.told and not branch.closed]
    start = starts[place % len(starts)]
    chosen = POLICIES[name](tree, SearchParams(), start, Random(seed)).branch
    assert chosen is start or (chosen.told and not chosen.closed)
    assert start in list(chosen.up())


@policies
@settings(deadline=None)
@given(rows=nodes, seed=places)
def test_the_same_facts_give_the_same_decision_with_finite_scores(name, rows, seed):
    params = SearchParams(policy=name, reward="log", pool_extra_max=2)
    first, second = (decide(plant(rows), params, Random(seed)) for _ in range(2))
    assert first == second
    assert first.why["levels"][-1]["node"] == first.parent
    scores = [level[key] for level in first.why["levels"] for key in ("expand", "child_score")]
    assert all(score is None or math.isfinite(score) for score in scores)


@policies
@pytest.mark.parametrize("state", ["empty", "pending", "failed"])
def test_a_tree_without_a_kernel_is_still_decided(name, state):
    tree = plant([] if state == "empty" else [(0, state, 1.0, 0.0)] * 5)
    decision = decide(tree, SearchParams(policy=name), Random(0))
    assert tree[decision.parent].told
    assert state == "failed" or decision.parent == 0


def test_greedy_takes_the_best_node_and_a_boost_counts():
    tree = grow((0, LARGE, 0.5, 1.0), (0, LARGE, 0.9, 5.0), (2, SMALL, 0.7, 3.0))
    assert POLICIES["greedy"](tree, SearchParams(), tree.root, Random(0)).branch.number == 2
    tree[3].boost = 0.3
    assert POLICIES["greedy"](tree, SearchParams(), tree.root, Random(0)).branch.number == 3


def test_independent_stays_at_its_start():
    tree = grow((0, LARGE, 0.9, 5.0))
    assert decide(tree, SearchParams(policy="independent"), Random(0)).parent == 0


def test_a_chain_goes_on_from_what_was_told_last_even_a_failure():
    tree = grow((0, LARGE, 0.9, 5.0), (1, SMALL, 0.0, None))
    assert POLICIES["chain"](tree, SearchParams(), tree.root, Random(0)).branch.number == 2


def test_many_in_flight_are_as_many_chains_side_by_side():
    tree = Tree()
    for number in (1, 2, 3):
        parent = POLICIES["chain"](tree, SearchParams(), tree.root, Random(0)).branch.number
        tree.reserve(number, parent, LARGE)
    heads = []
    for number, told in enumerate((2, 1, 3), start=4):
        tree.tell(told, 0.5, speedup=1.0)
        heads.append(POLICIES["chain"](tree, SearchParams(), tree.root, Random(0)).branch.number)
        tree.reserve(number, heads[-1], SMALL)
    assert heads == [2, 1, 3]


def test_map_elites_draws_the_elite_of_each_cell_alike():
    tree = Tree()
    for number, (cell, speedup) in enumerate([("a", 1.0), ("a", 4.0), ("b", 2.0), ("b", 2.0)], start=1):
        tree.reserve(number, 0, LARGE)
        tree.tell(number, 0.4 + speedup / 10, speedup=speedup, cell=cell)
    rng = Random(0)
    drawn = [POLICIES["map_elites"](tree, SearchParams(), tree.root, rng).branch.number for _ in range(200)]
    assert set(drawn) == {2, 3}
    assert 70 < drawn.count(2) < 130
