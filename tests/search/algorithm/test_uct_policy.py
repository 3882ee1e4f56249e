"""The reference policy: where it stops, where it descends, and how pending nodes weigh."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.algorithm.counterfactual import uct_arms
from search.algorithm.decide import decide, node_rng
from search.algorithm.params import SearchParams
from search.algorithm.policies import uct
from search.algorithm.tree import LARGE, SMALL, Tree
from tests.search.trees import grow

PAPER = SearchParams()


def test_an_empty_tree_is_expanded_at_its_root_by_a_large_step():
    decision = decide(Tree(), PAPER, Random(0))
    assert (decision.parent, decision.kind, decision.context) == (0, LARGE, ())


def test_the_scores_follow_the_formulas():
    tree = grow((0, LARGE, 1.0, 5.0), (0, LARGE, 0.4, 0.1), (1, SMALL, 0.6, 1.5))
    level = uct(tree, PAPER, tree.root).levels[0]
    log_visits = math.log(3)
    assert level["expand"] == pytest.approx(0.8 + 0.3 * math.sqrt(log_visits) / 2)
    assert level["child"] == 1
    assert level["child_score"] == pytest.approx(0.8 + 0.3 * math.sqrt(log_visits / 2))


def test_alpha_one_values_a_subtree_by_its_best():
    tree = grow((0, LARGE, 0.05, None), (0, LARGE, 0.5, 1.0), (1, SMALL, 1.6, 20.0))
    assert uct(tree, SearchParams(alpha=1.0), tree.root).levels[0]["child"] == 1


def test_ties_go_to_the_first_child_and_a_draw_with_the_expand_arm_descends():
    tree = grow((0, LARGE, 0.5, 1.0), (0, LARGE, 0.5, 1.0))
    assert uct(tree, SearchParams(w=0.0), tree.root).branch.number == 1


def tied_tree() -> Tree:
    """A root of three children and 22 visits; child 1 has nine of them and the best mean: sqrt(L/9), sqrt(L)/3."""
    rows = [(0, LARGE, 0.05, None), *[(1, LARGE, 0.05, None)] * 8, *[(0, LARGE, 0.0, None)] * 2]
    return grow(*rows, *[(10, LARGE, 0.0, None)] * 6, *[(11, LARGE, 0.0, None)] * 5)


def test_a_tie_of_the_published_form_descends_where_the_division_outside_the_root_expanded():
    tree = tied_tree()
    (level, *_) = uct(tree, PAPER, tree.root).levels
    assert (level["visits"], level["children"], tree[1].visits) == (22, 3, 9)
    assert level["expand"] == level["child_score"] and level["child"] == 1
    assert uct(tree, PAPER, tree.root).branch.number != 0
    former = SearchParams(version=1)
    assert uct(tree, former, tree.root).levels[0]["expand"] > level["expand"]
    assert uct(tree, former, tree.root).branch.number == 0


@pytest.mark.parametrize("version", [1, 2])
def test_the_parts_shown_of_a_score_are_rounded_as_the_decision_was(version):
    tree, params = tied_tree(), SearchParams(version=version)
    level = uct(tree, params, tree.root).levels[0]
    arm = next(arm for arm in uct_arms(tree, params, [tree.root]) if arm.node is None)
    assert arm.score == level["expand"]


def test_a_leaf_whose_only_child_is_pending_has_a_finite_expand_score():
    tree = grow((0, LARGE, 0.5, 1.0))
    tree.reserve(2, 1, SMALL)
    selection = uct(tree, SearchParams(w=0.0), tree.root)
    assert math.isfinite(selection.levels[-1]["expand"])
    assert selection.branch.number == 1


def test_a_tree_with_only_pending_nodes_still_decides():
    tree = Tree()
    tree.reserve(1, 0, LARGE)
    assert uct(tree, PAPER, tree.root).branch.number == 0


@settings(deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 40))
def test_a_pending_node_is_never_selected(seed, steps):
    rng = Random(seed)
    tree, opened = Tree(), []
    for number in range(1, steps):
        decision = decide(tree, PAPER, rng)
        assert tree[decision.parent].told
        tree.reserve(number, decision.parent, decision.kind)
        opened.append(number)
        if rng.random() < 0.5:
            tree.tell(opened.pop(rng.randrange(len(opened))), rng.random(), speedup=rng.random() + 0.1)
    assert tree.root.pending == len(opened)


def test_pending_nodes_spread_the_next_reservations():
    tree = grow((0, LARGE, 0.6, 1.8), (0, LARGE, 0.6, 1.8), (0, LARGE, 0.6, 1.8))
    parents = set()
    for number in range(4, 8):
        decision = decide(tree, PAPER, node_rng(0, number))
        tree.reserve(number, decision.parent, decision.kind)
        parents.add(decision.parent)
    assert len(parents) > 2
