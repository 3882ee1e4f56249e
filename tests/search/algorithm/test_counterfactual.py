"""What another policy would do: the decision it would make, and score parts that add up to what it compared."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.algorithm.counterfactual import ARMS_KEPT, counterfactual
from search.algorithm.decide import decide, node_rng
from search.algorithm.params import POLICY_NAMES, SearchParams
from search.algorithm.steering import BOOST, FORCE, PIN, PRUNE, Steering, SteeringAction
from search.algorithm.tree import LARGE, SMALL, Tree
from tests.search.trees import grow


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Up to 20 nodes, some of them in flight."""
    tree = Tree()
    for number in range(1, draw(st.integers(1, 20)) + 1):
        parent = draw(st.sampled_from([branch.number for branch in tree.branches.values() if branch.told]))
        tree.reserve(number, parent, LARGE if parent == 0 else draw(st.sampled_from([LARGE, SMALL])))
        if draw(st.booleans()):
            tree.tell(number, draw(st.floats(0, 1.6)), speedup=draw(st.none() | st.floats(0.1, 20)))
    return tree


@given(trees(), st.sampled_from(POLICY_NAMES), st.floats(0, 2), st.integers(0, 99))
@settings(max_examples=60, deadline=None)
def test_the_decision_is_the_one_that_decide_makes_and_the_chosen_arm_leads_to_it(tree, policy, w, seed):
    params = SearchParams(policy=policy, w=w)
    found = counterfactual(tree, params, node_rng(seed, 99))
    assert found.decision == decide(tree, params, node_rng(seed, 99))
    chosen = [arm for arm in found.arms if arm.chosen]
    assert all(arm.score == pytest.approx(sum(arm.parts.values())) for arm in found.arms)
    for arm in chosen:
        rivals = [other.score for other in found.arms if other.at == arm.at]
        assert arm.score == max(rivals)
    if chosen:
        last = chosen[-1]
        assert found.decision.parent == (last.at if last.node is None else last.node)


def test_uct_s_arms_are_the_scores_that_the_decision_recorded():
    tree = grow((0, LARGE, 1.0, 5.0), (0, LARGE, 0.5, 1.0), (1, SMALL, 0.9, 4.0))
    found = counterfactual(tree, SearchParams(w=0.2), Random(0))
    levels = found.decision.why["levels"]
    assert any(level["child"] is not None for level in levels)
    for level in levels:
        scores = {arm.node: arm.score for arm in found.arms if arm.at == level["node"]}
        assert scores.get(None) == level["expand"]
        assert level["child"] is None or scores[level["child"]] == level["child_score"]


def test_a_boost_is_a_part_of_its_own_and_pruned_nodes_are_no_arms():
    tree = grow((0, LARGE, 1.0, 5.0), (0, LARGE, 0.5, 1.0), (0, LARGE, 0.4, 1.0))
    steering = Steering((SteeringAction(1, BOOST, 2, boost=3.0), SteeringAction(2, PRUNE, 1)))
    found = counterfactual(tree, SearchParams(), Random(0), steering)
    assert {arm.node: arm.parts.get("boost") for arm in found.arms if arm.at == 0} == {2: 3.0, 3: 0.0, None: None}
    assert found.decision.parent == 2


def test_a_pin_is_where_the_comparison_begins_and_a_forced_step_compares_nothing():
    tree = grow((0, LARGE, 1.0, 5.0), (1, SMALL, 0.5, 1.0), (0, LARGE, 1.5, 9.0))
    pinned = Steering((SteeringAction(1, PIN, 1, quota=2),))
    assert {arm.at for arm in counterfactual(tree, SearchParams(), Random(0), pinned).arms} <= {1, 2}
    forced = Steering((SteeringAction(1, FORCE, 2, kind=SMALL),))
    found = counterfactual(tree, SearchParams(), Random(0), forced)
    assert (found.decision.parent, found.arms) == (2, ())


def test_of_many_arms_the_best_are_kept_and_the_others_counted():
    tree = grow(*[(0, LARGE, 0.4 + k / 100, 1.0) for k in range(40)])
    found = counterfactual(tree, SearchParams(policy="greedy"), Random(0))
    assert (len(found.arms), found.hidden, found.arms[0].node) == (ARMS_KEPT, 28, 40)
