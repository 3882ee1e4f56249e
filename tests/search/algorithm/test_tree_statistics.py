"""Statistics of the tree: whatever the order of reservations, tells and cancels, the sums come out."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.algorithm.tree import LARGE, SMALL, Fact, Tree
from tests.search.trees import grow

acts = st.lists(
    st.tuples(st.sampled_from(["reserve", "tell", "cancel"]), st.integers(0, 10**6), st.floats(0, 1.6)), max_size=120
)


def play(moves: list[tuple[str, int, float]]) -> tuple[Tree, list[int], list[float]]:
    """Apply moves; returns the tree, the numbers still open and the rewards backed up."""
    tree, opened, rewards = Tree(), [], []
    told = [0]
    for number, (act, pick, reward) in enumerate(moves, start=1):
        if act == "reserve":
            tree.reserve(number, told[pick % len(told)], LARGE if pick % 2 else SMALL)
            opened.append(number)
        elif opened:
            chosen = opened.pop(pick % len(opened))
            if act == "cancel":
                tree.cancel(chosen)
            else:
                tree.tell(chosen, reward)
                told.append(chosen)
                rewards.append(reward)
    return tree, opened, rewards


@settings(deadline=None)
@given(acts)
def test_pending_counts_the_open_nodes_and_returns_to_zero_after_drain(moves):
    tree, opened, _ = play(moves)
    assert tree.root.pending == len(opened)
    for number in opened:
        tree.cancel(number)
    assert all(branch.pending == 0 for branch in tree.branches.values())


@settings(deadline=None)
@given(acts)
def test_visits_of_a_node_are_one_plus_those_of_its_children(moves):
    tree, _, rewards = play(moves)
    for branch in tree.branches.values():
        below = sum(child.visits for child in branch.children)
        assert branch.visits == below + (branch.told and not branch.is_root)
    assert tree.root.visits == len(rewards)


@settings(deadline=None)
@given(acts)
def test_total_reward_is_the_sum_backed_up(moves):
    tree, _, rewards = play(moves)
    assert tree.root.total == pytest.approx(sum(rewards))
    assert tree.root.best == max(rewards, default=0.0)
    for branch in tree.branches.values():
        assert branch.total == pytest.approx(branch.own + sum(child.total for child in branch.children))


@settings(deadline=None)
@given(acts)
def test_replaying_the_facts_gives_the_same_tree(moves):
    tree, _, _ = play(moves)
    order = {number: place for place, number in enumerate((n for n in tree.branches if tree[n].told), start=1)}
    facts = [
        Fact(b.number, b.parent.number if b.parent else None, b.kind, order.get(b.number), b.own)
        for b in tree.branches.values()
    ]
    again = Tree.replay(reversed(facts))
    for number, branch in tree.branches.items():
        other = again[number]
        assert (other.visits, other.pending, other.depth) == (branch.visits, branch.pending, branch.depth)
        assert other.total == pytest.approx(branch.total)


def test_second_tell_changes_nothing():
    tree = grow((0, LARGE, 0.5, 1.0))
    tree.tell(1, 1.6)
    assert (tree.root.visits, tree.root.total) == (1, 0.5)


def test_cancelling_a_told_node_changes_nothing():
    tree = grow((0, LARGE, 0.5, 1.0))
    tree.cancel(1)
    assert (tree.root.visits, len(tree.root.children)) == (1, 1)


def test_a_replay_sums_in_told_order_to_the_last_bit():
    rewards = [0.1, 0.2, 0.3, 0.7, 1.6, 0.05]
    tree = Tree()
    for number in range(1, 7):
        tree.reserve(number, 0, LARGE)
    order = [4, 1, 6, 2, 5, 3]
    for number in order:
        tree.tell(number, rewards[number - 1])
    facts = [Fact(n, 0, LARGE, order.index(n) + 1, rewards[n - 1]) for n in range(1, 7)]
    assert Tree.replay(facts).root.total == tree.root.total
