"""What a policy is: a function of the tree, the parameters, a node to start at and a generator.

It selects `start` or a node below it: told, not closed, and other than `start` not the root. A node's boost is added to
the node's own score; ties go to the first. With nothing to select below it, `start` is selected, so that an empty tree,
a tree of failures and a tree of pending nodes all have an answer. Scores in `levels` are finite or None.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.tree import Branch, Tree


@dataclass(frozen=True)
class Selection:
    """The node to expand and, per level walked, the scores compared there."""

    branch: Branch
    levels: tuple[dict[str, Any], ...] = ()


Policy = Callable[[Tree, SearchParams, Branch, Random], Selection]


def selectable(tree: Tree, start: Branch) -> Iterator[Branch]:
    """The told, open nodes from `start` down except the root, in number order, which settles ties."""
    found = tree.branches.values() if start.is_root else sorted(start.down(), key=lambda branch: branch.number)
    return (branch for branch in found if branch.told and not branch.closed and not branch.is_root)


def level_of(branch: Branch) -> dict[str, Any]:
    """What is recorded of a node on the way; a policy fills in the scores it compared and the child it went to."""
    return {
        "node": branch.number,
        "visits": branch.visits,
        "pending": branch.pending,
        "children": len(branch.children),
        "expand": None,
        "child": None,
        "child_score": None,
    }


def straight_to(branch: Branch, start: Branch, score: float | None = None) -> Selection:
    """The selection of a policy that does not walk: from `start` to the node it picked, by this score of it."""
    if branch is start:
        return Selection(branch, (level_of(branch),))
    first = level_of(start) | {"child": branch.number, "child_score": score}
    return Selection(branch, (first, level_of(branch)))


def chain(tree: Tree, params: SearchParams, start: Branch, rng: Random | None = None) -> Selection:
    """The head told last: of the nodes that nothing builds on yet, the highest boost, then the newest.

    A failure is a head, too: the next step repairs it. With one step in flight this is one chain. With n in flight the
    first n reservations open n chains at `start`, and whoever tells a node goes on from it: n chains side by side.
    Where every node is built on, as when more steps are allowed in flight, a new chain leaves the node told last.
    """
    rows = [(not branch.children, branch.boost, branch.order, branch.number) for branch in selectable(tree, start)]
    return straight_to(tree[max(rows)[3]] if rows else start, start)


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


def independent(tree: Tree, params: SearchParams, start: Branch, rng: Random | None = None) -> Selection:
    """Always `start`, the root unless a person says otherwise."""
    return straight_to(start, start)


def map_elites(tree: Tree, params: SearchParams, start: Branch, rng: Random) -> Selection:
    """An elite drawn uniformly; `start` while no kernel below it is correct.

    Pending nodes do not weigh: many in flight are spread by the draw.
    """
    elites = elites_of(tree, start)
    if not elites:
        return straight_to(start, start)
    drawn = elites[rng.choice(sorted(elites))]
    return straight_to(drawn, start, drawn.own + drawn.boost)


def elites_of(tree: Tree, start: Branch) -> dict[str, Branch]:
    """Per cell its elite below `start`: the correct kernel with the highest reward, boost included, the earliest on a
    tie."""
    elites: dict[str, Branch] = {}
    for branch in selectable(tree, start):
        if branch.speedup is None:
            continue
        elite = elites.get(branch.cell)
        if elite is None or branch.own + branch.boost > elite.own + elite.boost:
            elites[branch.cell] = branch
    return elites


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


POLICIES: Mapping[str, Policy] = MappingProxyType(
    {"uct": uct, "greedy": greedy, "independent": independent, "chain": chain, "map_elites": map_elites}
)
