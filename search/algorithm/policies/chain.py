"""Iterative refinement: always build on what was told last."""

from __future__ import annotations

from random import Random

from search.algorithm.params import SearchParams
from search.algorithm.policies.selection import Selection, selectable, straight_to
from search.algorithm.tree import Branch, Tree


def chain(tree: Tree, params: SearchParams, start: Branch, rng: Random | None = None) -> Selection:
    """The head told last: of the nodes that nothing builds on yet, the highest boost, then the newest.

    A failure is a head, too: the next step repairs it. With one step in flight this is one chain. With n in flight the
    first n reservations open n chains at `start`, and whoever tells a node goes on from it: n chains side by side.
    Where every node is built on, as when more steps are allowed in flight, a new chain leaves the node told last.
    """
    rows = [(not branch.children, branch.boost, branch.order, branch.number) for branch in selectable(tree, start)]
    return straight_to(tree[max(rows)[3]] if rows else start, start)
