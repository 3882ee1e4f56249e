"""Which kernels a step shows to its proposer: the pool of a large step, the window of a small one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from random import Random

from search.algorithm.params import SearchParams
from search.algorithm.ranking import rank
from search.algorithm.tree import LARGE, SMALL, Branch, Tree


def component_best(start: Branch) -> Branch | None:
    """The fastest correct kernel among `start` and all nodes reached from it by small steps only, as they rank.

    What a person has pruned is not shown any more.
    """
    best: Branch | None = None
    stack = [start]
    while stack:
        branch = stack.pop()
        if branch.speedup is not None and not branch.closed and (best is None or _rank(branch) > _rank(best)):
            best = branch
        stack.extend(child for child in branch.children if child.kind == SMALL)
    return best


def _rank(branch: Branch) -> tuple[float, int]:
    return rank(branch.speedup, branch.number)


def large_pool(tree: Tree, branch: Branch, params: SearchParams, rng: Random) -> tuple[int, ...]:
    """Best correct kernel of each large-step ancestor's component (the node included), from the root down.

    More than `pool_size` of them: a random subset, order kept. Free places may take kernels from off the path.
    """
    path = [step for step in branch.up() if step.kind == LARGE][::-1]
    pool = [best.number for step in path if (best := component_best(step)) is not None]
    if len(pool) > params.pool_size:
        keep = sorted(rng.sample(range(len(pool)), params.pool_size))
        return tuple(pool[place] for place in keep)
    return (*pool, *_extras(tree, {step.number for step in path}, params.pool_size - len(pool), params, rng))


def _extras(tree: Tree, on_path: set[int], free: int, params: SearchParams, rng: Random) -> Iterable[int]:
    """Kernels of components off the path: k of them with P(k) ~ (1 - p)^k, drawn by softmax(speedup / T)."""
    most = min(free, params.pool_extra_max)
    if most <= 0:
        return
    left = [best for start, best in _component_bests(tree).items() if start not in on_path]
    most = min(most, len(left))
    count = rng.choices(range(most + 1), weights=[(1 - params.pool_extra_p) ** k for k in range(most + 1)])[0]
    for _ in range(count):
        top = max(branch.speedup or 0.0 for branch in left)
        weights = [math.exp(((branch.speedup or 0.0) - top) / params.pool_extra_t) for branch in left]
        drawn = rng.choices(left, weights=weights)[0]
        left.remove(drawn)
        yield drawn.number


def small_window(branch: Branch, params: SearchParams) -> tuple[int, ...]:
    """At most `window` nodes ending at `branch`, going up no further than its nearest large-step ancestor."""
    shown: list[int] = []
    for step in branch.up():
        if step.is_root or len(shown) == params.window:
            break
        shown.append(step.number)
        if step.kind == LARGE:
            break
    return tuple(shown[::-1])


def _component_bests(tree: Tree) -> dict[int, Branch]:
    """Best correct kernel of every component, by the number of its large step. One pass: parents come first."""
    starts: dict[int, int] = {}
    bests: dict[int, Branch] = {}
    for number, branch in tree.branches.items():
        if branch.kind == SMALL and branch.parent is not None:
            starts[number] = starts[branch.parent.number]
        else:
            starts[number] = number
        best = bests.get(starts[number])
        if branch.speedup is not None and not branch.closed and (best is None or _rank(branch) > _rank(best)):
            bests[starts[number]] = branch
    return bests
