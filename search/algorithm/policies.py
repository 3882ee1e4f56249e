"""Which node to expand next. A policy is a function of the tree and the parameters; ties go to the first child.

The comparisons are made on plain floats in the order of the formulas, without tolerance: exactly so the published
trees come out again, down to differences in the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.tree import Branch, Tree


@dataclass(frozen=True)
class Selection:
    """The node to expand and, per level walked, the scores compared there."""

    branch: Branch
    levels: tuple[dict[str, Any], ...] = ()


Policy = Callable[[Tree, SearchParams], Selection]


def uct(tree: Tree, params: SearchParams) -> Selection:
    """Reference policy (AdaExplore section 3.2).

    Q = alpha * best + (1 - alpha) * total / visits; child arm U(c) = Q(c) + w sqrt(ln V(parent) / V(c));
    expand arm E(v) = max Q(c) + w rho sqrt(ln V(v)) / n. From the root down, stop where E > max U or nothing is below.
    V and n count pending nodes too, so that many workers spread; a pending node is no arm, it has no kernel yet.
    """
    levels = []
    branch = tree.root
    while True:
        level, below = _weigh(branch, params)
        levels.append(level)
        if below is None:
            return Selection(branch, tuple(levels))
        branch = below


def _weigh(branch: Branch, params: SearchParams) -> tuple[dict[str, Any], Branch | None]:
    """Scores at one node: a record of them, and the child to descend to or None to expand here."""
    w, alpha = params.w, params.alpha
    log_visits = math.log(max(branch.visits + branch.pending, 1))
    highest_q = highest_u = -math.inf
    chosen: Branch | None = None
    for child in branch.children:
        if not child.told:
            continue
        q = alpha * child.best + (1 - alpha) * child.total / child.visits
        u = q + w * math.sqrt(log_visits / (child.visits + child.pending))
        if q > highest_q:
            highest_q = q
        if u > highest_u:
            highest_u, chosen = u, child
    count = len(branch.children)
    level: dict[str, Any] = {
        "node": branch.number,
        "visits": branch.visits,
        "pending": branch.pending,
        "children": count,
        "expand": None,
        "child": None,
        "child_score": None,
    }
    if not count:
        return level, None
    if chosen is None:  # every child is pending: judged by the node's own mean, so that its score is finite
        highest_q = branch.total / branch.visits if branch.visits else 0.0
    expand = highest_q + w * params.rho * math.sqrt(log_visits) / count
    level["expand"] = expand
    if chosen is None:
        return level, None
    level["child"], level["child_score"] = chosen.number, highest_u
    return level, (None if expand > highest_u else chosen)


def greedy(tree: Tree, params: SearchParams) -> Selection:
    """The node with the highest reward of its own, the earliest on a tie; the root while nothing is told."""
    best = tree.root
    highest = -math.inf
    for branch in tree.branches.values():
        if branch.told and branch.own > highest and not branch.is_root:
            best, highest = branch, branch.own
    return Selection(best)


def independent(tree: Tree, params: SearchParams) -> Selection:
    """Always the root: every step a fresh kernel, the honest control."""
    return Selection(tree.root)


POLICIES: Mapping[str, Policy] = MappingProxyType({"uct": uct, "greedy": greedy, "independent": independent})
