"""The reference policy: a walk down the tree by upper confidence bounds.

The comparisons are made on plain floats in the order of the formulas, without tolerance: exactly so the published
trees come out again, down to differences in the last bit.
"""

from __future__ import annotations

import math
from random import Random
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.policies.selection import Selection, level_of
from search.algorithm.tree import Branch, Tree


def uct(tree: Tree, params: SearchParams, start: Branch, rng: Random | None = None) -> Selection:
    """Reference policy (AdaExplore section 3.2).

    Q = alpha * best + (1 - alpha) * total / visits; child arm U(c) = Q(c) + w sqrt(ln V(parent) / V(c));
    expand arm E(v) = max Q(c) + w rho sqrt(ln V(v) / n^2). From `start` down, stop where E > max U or nothing is below.
    V and n count pending nodes too, so that many workers spread; a pending node is no arm, it has no kernel yet.
    """
    levels = []
    branch = start
    while True:
        level, below = _weigh(branch, params)
        levels.append(level)
        if below is None:
            return Selection(branch, tuple(levels))
        branch = below


def expand_spread(log_visits: float, count: int, params: SearchParams) -> float:
    """The exploration part of the expand arm at a node with `count` children, rounded as the published code rounds it:
    the division outside the root, which the first version had, differs in the last bit and so decides ties otherwise.
    """
    if params.divides_inside:
        return params.w * params.rho * math.sqrt(log_visits / count**2)
    return params.w * params.rho * math.sqrt(log_visits) / count


def _weigh(branch: Branch, params: SearchParams) -> tuple[dict[str, Any], Branch | None]:
    """Scores at one node: a record of them, and the child to descend to or None to expand here."""
    w, alpha = params.w, params.alpha
    log_visits = math.log(max(branch.visits + branch.pending, 1))
    highest_q = highest_u = -math.inf
    chosen: Branch | None = None
    for child in branch.children:
        if not child.told or child.closed:
            continue
        q = alpha * child.best + (1 - alpha) * child.total / child.visits
        u = q + w * math.sqrt(log_visits / (child.visits + child.pending)) + child.boost
        if q > highest_q:
            highest_q = q
        if u > highest_u:
            highest_u, chosen = u, child
    count = len(branch.children)
    level = level_of(branch)
    if not count:
        return level, None
    if chosen is None:  # every child is pending or closed: judged by the node's own mean, so that its score is finite
        highest_q = branch.total / branch.visits if branch.visits else 0.0
    expand = highest_q + expand_spread(log_visits, count, params)
    level["expand"] = expand
    if chosen is None:
        return level, None
    level["child"], level["child_score"] = chosen.number, highest_u
    return level, (None if expand > highest_u else chosen)
