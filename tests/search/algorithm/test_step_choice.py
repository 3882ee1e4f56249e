"""Kind of step, pool and window."""

from __future__ import annotations

from random import Random

from search.algorithm.decide import component_best, decide, large_pool, node_rng, small_window
from search.algorithm.params import SearchParams
from search.algorithm.tree import LARGE, SMALL, Tree
from tests.search.trees import grow

PAPER = SearchParams()


def chain(kinds: str) -> Tree:
    """A single path; L and S name the kinds, node k has speedup k."""
    rows = [(k, LARGE if kind == "L" else SMALL, 0.5, float(k + 1)) for k, kind in enumerate(kinds)]
    return grow(*rows)


def test_the_window_ends_at_the_node_and_begins_at_its_large_step():
    assert small_window(chain("LSS")[3], PAPER) == (1, 2, 3)
    assert small_window(chain("LSSSSSS")[7], PAPER) == (3, 4, 5, 6, 7)
    assert small_window(chain("LSL")[3], PAPER) == (3,)


def test_the_pool_holds_the_best_of_each_large_ancestors_component_from_the_root_down():
    tree = chain("LSLS")
    tree.reserve(5, 1, SMALL)
    tree.tell(5, 1.6, speedup=50.0)
    assert large_pool(tree, tree[4], PAPER, Random(0)) == (5, 4)


def test_wrong_kernels_never_enter_a_pool():
    tree = grow((0, LARGE, 0.05, None), (1, SMALL, 0.05, None))
    assert component_best(tree[1]) is None
    assert large_pool(tree, tree[2], PAPER, Random(0)) == ()


def test_an_oversize_pool_is_a_random_subset_in_order():
    tree = chain("L" * 9)
    pools = {large_pool(tree, tree[9], PAPER, Random(seed)) for seed in range(20)}
    assert len(pools) > 5
    assert all(len(pool) == 5 and list(pool) == sorted(pool) for pool in pools)


def test_extras_come_from_off_the_path_without_repetition():
    tree = grow(*[(0, LARGE, 0.5, float(k)) for k in range(1, 9)])
    params = SearchParams(pool_extra_max=3, pool_extra_p=0.2)
    pools = [large_pool(tree, tree[1], params, Random(seed)) for seed in range(50)]
    assert all(pool[0] == 1 and len(set(pool)) == len(pool) <= 4 for pool in pools)
    assert max(len(pool) for pool in pools) == 4


def test_a_node_with_enough_small_steps_takes_a_large_one():
    tree = grow((0, LARGE, 1.0, 5.0), (1, SMALL, 0.4, 0.1), (1, SMALL, 0.4, 0.1))
    params = SearchParams(policy="greedy", p_large=0.0)
    decision = decide(tree, params, Random(0))
    assert (decision.parent, decision.kind, decision.why["kind"]["because"]) == (1, LARGE, "limit")


def test_a_node_without_source_takes_a_large_step():
    tree = Tree()
    tree.reserve(1, 0, LARGE)
    tree.tell(1, 0.0, written=False)
    decision = decide(tree, SearchParams(w=0.0, p_large=0.0), Random(0))
    assert (decision.parent, decision.kind, decision.why["kind"]["because"]) == (1, LARGE, "no_source")


def test_kinds_follow_p_large():
    tree = grow((0, LARGE, 1.0, 5.0))
    params = SearchParams(policy="greedy", p_large=0.2)
    kinds = [decide(tree, params, node_rng(7, number)).kind for number in range(2000)]
    assert 0.17 < kinds.count(LARGE) / 2000 < 0.23


def test_the_same_seed_and_number_decide_the_same():
    tree = chain("LSLSL")
    params = SearchParams(pool_size=1, pool_extra_max=2)
    assert decide(tree, params, node_rng(3, 6)) == decide(tree, params, node_rng(3, 6))


def test_independent_always_starts_afresh():
    decision = decide(chain("LSS"), SearchParams(policy="independent"), Random(0))
    assert (decision.parent, decision.kind, decision.context) == (0, LARGE, ())
