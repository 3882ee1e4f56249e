"""How long a decision takes on a large tree, and its replay from facts: python -m tests.load.decisions [nodes].

Processor time of one core, median of five. A reservation in a run replays once and decides once for each free place.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from random import Random
from statistics import median

from search.algorithm.decide import decide, node_rng
from search.algorithm.params import POLICY_NAMES, SearchParams
from search.algorithm.ranking import reward
from search.algorithm.tree import LARGE, SMALL, Fact, Tree

NODES = 10_000


def deep(number: int, rng: Random) -> int:
    """One chain, as `chain` makes it."""
    return number - 1


def wide(number: int, rng: Random) -> int:
    """All below the root, as `independent` makes it."""
    return 0


def mixed(number: int, rng: Random) -> int:
    """Chains that now and then leave from anywhere."""
    return number - 1 if number % 7 else rng.randrange(number)


def facts_of(parent_of: Callable[[int, Random], int], nodes: int) -> list[Fact]:
    """Facts of a tree of this shape, told in an order other than that of reservation."""
    rng, facts = Random(1), []
    places = sorted(range(1, nodes + 1), key=lambda number: number + rng.random() * 16)
    told = {number: place for place, number in enumerate(places, start=1)}
    for number in range(1, nodes + 1):
        parent = parent_of(number, rng)
        kind = LARGE if parent == 0 or rng.random() < 0.3 else SMALL
        speedup = rng.random() * 5 + 0.1
        worth = reward(loads=True, correct=True, speedup=speedup)
        facts.append(Fact(number, parent, kind, told[number], worth, speedup, cell=str(number % 9)))
    return facts


def milliseconds(act: Callable[[], object], times: int = 5) -> float:
    """Median processor time of `act`."""
    spent = []
    for _ in range(times):
        began = time.thread_time()
        act()
        spent.append(1e3 * (time.thread_time() - began))
    return median(spent)


def costly() -> list[SearchParams]:
    """Every policy with the costliest kind of step, a large pool; and `uct` as it walks furthest down."""
    policies = [SearchParams(policy=name, p_large=1.0, pool_extra_max=3) for name in POLICY_NAMES]
    return [*policies, SearchParams(w=0.0, p_large=1.0, pool_extra_max=3)]


def decision_ms(tree: Tree, params: SearchParams) -> float:
    """One decision on this tree."""
    return milliseconds(lambda: decide(tree, params, node_rng(1, len(tree.branches))))


def main() -> None:
    nodes = int(sys.argv[1]) if len(sys.argv) > 1 else NODES
    print(f"{nodes} nodes, milliseconds of one core\n")
    print(f"| shape | replay | replay, log reward | {' | '.join((*POLICY_NAMES, 'uct without exploration'))} |")
    print("|---" * (4 + len(POLICY_NAMES)) + "|")
    for shape in (deep, wide, mixed):
        facts = facts_of(shape, nodes)
        row = [milliseconds(lambda facts=facts, log=log: Tree.replay(facts, log=log)) for log in (False, True)]
        tree = Tree.replay(facts)
        row += [decision_ms(tree, params) for params in costly()]
        print(f"| {shape.__name__} | {' | '.join(f'{ms:.1f}' for ms in row)} |", flush=True)


if __name__ == "__main__":
    main()
