"""Best node first."""

from __future__ import annotations

import math
from random import Random

from search.algorithm.params import SearchParams
from search.algorithm.policies.selection import Selection, selectable, straight_to
from search.algorithm.tree import Branch, Tree


def greedy(tree: Tree, params: SearchParams, start: Branch, rng: Random | None = None) -> Selection:
    """The node with the highest reward of its own, the earliest on a tie; `start` while nothing below it is told.

    Pending nodes do not weigh: with many in flight all of them stand on the best node known.
    """
    best, highest = start, -math.inf
    for branch in selectable(tree, start):
        worth = branch.own + branch.boost
        if worth > highest:
            best, highest = branch, worth
    return straight_to(best, start, None if best is start else highest)
