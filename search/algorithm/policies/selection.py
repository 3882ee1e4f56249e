"""What a policy is: a function of the tree, the parameters, a node to start at and a generator.

It selects `start` or a node below it: told, not closed, and other than `start` not the root. A node's boost is added to
the node's own score; ties go to the first. With nothing to select below it, `start` is selected, so that an empty tree,
a tree of failures and a tree of pending nodes all have an answer. Scores in `levels` are finite or None.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
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
