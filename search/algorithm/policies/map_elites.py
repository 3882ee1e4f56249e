"""One elite for each cell of a grid of kernels launched x arithmetic pattern (MAP-Elites, Mouret and Clune 2015)."""

from __future__ import annotations

from random import Random

from search.algorithm.params import SearchParams
from search.algorithm.policies.selection import Selection, selectable, straight_to
from search.algorithm.tree import Branch, Tree


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
