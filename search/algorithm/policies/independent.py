"""Every step a fresh kernel: the honest control."""

from __future__ import annotations

from random import Random

from search.algorithm.params import SearchParams
from search.algorithm.policies.selection import Selection, straight_to
from search.algorithm.tree import Branch, Tree


def independent(tree: Tree, params: SearchParams, start: Branch, rng: Random | None = None) -> Selection:
    """Always `start`, the root unless a person says otherwise."""
    return straight_to(start, start)
