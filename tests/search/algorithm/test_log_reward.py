"""The logarithmic reward: monotone, within bounds, and the same whether a tree grew or was replayed."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search.algorithm.decide import decide, node_rng
from search.algorithm.params import POLICY_NAMES, SearchParams
from search.algorithm.ranking import LOG_SPAN, log_reward, reward
from search.algorithm.tree import LARGE, SMALL, Fact, Tree

speedups = st.floats(1e-6, 1e6)
moves = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "reserve", "tell", "tell", "cancel"]),
        st.integers(0, 10**6),
        st.none() | st.floats(0, 1000),
    ),
    max_size=80,
)


def told_reward(speedup: float | None) -> float:
    return reward(loads=True, correct=speedup is not None, speedup=speedup)


def play(acts: list[tuple[str, int, float | None]], log: bool) -> tuple[Tree, list[Fact]]:
    """The tree that grew by these acts, and the facts of what is left of it."""
    tree, opened, told = Tree(log=log), [], [0]
    for number, (act, pick, speedup) in enumerate(acts, start=1):
        if act == "reserve":
            tree.reserve(number, told[pick % len(told)], LARGE if pick % 2 else SMALL)
            opened.append(number)
        elif opened and act == "cancel":
            tree.cancel(opened.pop(pick % len(opened)))
        elif opened:
            told.append(opened.pop(pick % len(opened)))
            tree.tell(told[-1], told_reward(speedup), speedup=speedup)
    facts = [
        Fact(
            b.number,
            b.parent and b.parent.number,
            b.kind,
            b.order if b.told else None,
            told_reward(b.speedup),
            b.speedup,
        )
        for b in tree.branches.values()
    ]
    return tree, facts


@given(speedups, speedups, speedups)
def test_a_faster_kernel_is_never_worth_less(one, two, best):
    slow, fast = sorted((one, two))
    best = max(best, fast)
    assert 0.4 <= log_reward(slow, best) <= log_reward(fast, best) <= 1.6


def test_the_best_is_worth_most_and_a_tenth_of_it_least():
    assert log_reward(900.0, 900.0) == 1.6
    assert log_reward(900.0 / math.sqrt(LOG_SPAN), 900.0) == pytest.approx(1.0)
    assert log_reward(90.0, 900.0) == log_reward(5e-324, 900.0) == log_reward(0.0, 900.0) == 0.4


def test_a_new_best_lowers_the_others_and_failures_stay_as_they_are():
    tree = Tree(log=True)
    for number, speedup in enumerate((2.0, None, 2 * math.sqrt(LOG_SPAN)), start=1):
        tree.reserve(number, 0, LARGE)
        tree.tell(number, told_reward(speedup), speedup=speedup)
    assert [tree[number].own for number in (1, 2, 3)] == [pytest.approx(1.0), 0.05, 1.6]
    assert (tree.root.total, tree.root.best) == (pytest.approx(2.65), 1.6)


@settings(deadline=None)
@pytest.mark.parametrize("log", [True, False])
@given(acts=moves)
def test_a_tree_that_grew_is_the_tree_its_facts_replay_to(log, acts):
    tree, facts = play(acts, log)
    again = Tree.replay(reversed(facts), log=log)
    names = ("told", "order", "visits", "pending", "total", "best", "own", "speedup", "depth")
    for number, branch in tree.branches.items():
        assert [getattr(again[number], name) for name in names] == [getattr(branch, name) for name in names]


@settings(deadline=None, max_examples=50)
@pytest.mark.parametrize("policy", POLICY_NAMES)
@given(acts=moves)
def test_a_replayed_tree_decides_like_the_one_that_grew(policy, acts):
    tree, facts = play(acts, True)
    params = SearchParams(policy=policy, reward="log", pool_extra_max=2)
    assert decide(Tree.replay(facts, log=True), params, node_rng(7, 99)) == decide(tree, params, node_rng(7, 99))


@settings(deadline=None)
@given(moves)
def test_the_total_is_the_sum_of_the_rewards_as_they_count_now(acts):
    tree, _ = play(acts, True)
    for branch in tree.branches.values():
        assert branch.total == pytest.approx(sum(below.own for below in branch.down()))
        assert branch.best == max(below.own for below in branch.down())
