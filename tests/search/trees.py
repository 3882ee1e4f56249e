"""Builds search trees for tests of the pure algorithm."""

from __future__ import annotations

from search.algorithm.tree import Tree


def grow(*rows: tuple[int, str, float, float | None]) -> Tree:
    """A tree from (parent, kind, reward, speedup) rows; numbers count from 1, all told in that order."""
    tree = Tree()
    for number, (parent, kind, reward, speedup) in enumerate(rows, start=1):
        tree.reserve(number, parent, kind)
        tree.tell(number, reward, speedup=speedup)
    return tree
