"""A search of ten thousand nodes decides and replays with little work, whatever its shape. For times see
tests.load.decisions."""

from __future__ import annotations

import pytest

from search.algorithm.decide import decide, node_rng
from search.algorithm.tree import Tree
from tests.counting import calls_of
from tests.load.decisions import costly, deep, facts_of, mixed, wide

NODES = 10_000
DECISION_CALLS = 20 * NODES  # the costliest policy takes 17 a node
REPLAY_CALLS = 20 * NODES  # 16 a node


@pytest.mark.parametrize("shape", [deep, wide, mixed])
def test_a_tree_of_ten_thousand_nodes_decides_at_once(shape):
    tree = Tree.replay(facts_of(shape, NODES))
    for params in costly():
        assert calls_of(lambda params=params: decide(tree, params, node_rng(1, NODES))) < DECISION_CALLS, params.policy


@pytest.mark.parametrize("shape", [deep, mixed])
def test_its_facts_replay_without_being_waited_for(shape):
    facts = facts_of(shape, NODES)
    assert calls_of(lambda: Tree.replay(facts, log=True)) < REPLAY_CALLS


@pytest.mark.parametrize("log", [True, False])
def test_a_deep_tree_is_summed_to_the_same_last_bit_as_one_that_grew(log):
    facts = sorted(facts_of(deep, 300), key=lambda fact: fact.told or 0)
    grown = Tree(log=log)
    for fact in sorted(facts, key=lambda fact: fact.number):
        grown.reserve(fact.number, fact.parent or 0, fact.kind)
    for fact in facts:
        grown.tell(fact.number, fact.reward, speedup=fact.speedup)
    again = Tree.replay(facts, log=log)
    assert [again[n].total for n in grown.branches] == [branch.total for branch in grown.branches.values()]
