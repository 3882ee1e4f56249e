"""Sums rewards up a whole tree at once, every node in told order, so that sums agree with those of single tells.

Walking from every told node to the root costs the sum of all depths: fifty million additions for ten thousand
nodes in one chain. Deep trees are cut into heavy paths instead (Sleator and Tarjan 1983): any way to the root meets few
of them, and along each one the reward is added to an array at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from search.algorithm.branch import Branch

DEEP = 48  # mean depth from which arrays are faster


def sum_rewards(branches: Sequence[Branch], told: Sequence[Branch]) -> None:
    """Set `total` of every branch. `branches` hold parents before children, `told` is in told order."""
    for branch in branches:
        branch.total = 0.0
    worth = [branch for branch in told if branch.own]  # adding 0 changes no sum
    if sum(branch.depth for branch in worth) > DEEP * len(branches):
        _along_paths(branches, worth)
    else:
        _step_by_step(worth)


def _step_by_step(told: Iterable[Branch]) -> None:
    for branch in told:
        reward = branch.own
        step: Branch | None = branch
        while step is not None:
            step.total += reward
            step = step.parent


def _along_paths(branches: Sequence[Branch], told: Iterable[Branch]) -> None:
    heavy = _heavy_children(branches)
    place: dict[int, int] = {}
    head: dict[int, Branch] = {}  # of the path a node lies on
    for branch in branches:
        step: Branch | None = None if branch.number in place else branch
        while step is not None:
            place[step.number], head[step.number] = len(place), branch
            step = heavy.get(step.number)
    totals = np.zeros(len(branches))
    for branch in told:
        reward = branch.own
        step = branch
        while step is not None:
            top = head[step.number]
            totals[place[top.number] : place[step.number] + 1] += reward
            step = top.parent
    for branch in branches:
        branch.total = float(totals[place[branch.number]])


def _heavy_children(branches: Sequence[Branch]) -> dict[int, Branch]:
    """By number of the parent, the child with the largest subtree, the last of equals."""
    sizes = {branch.number: 1 for branch in branches}
    heavy: dict[int, Branch] = {}
    for branch in reversed(branches):
        above = branch.parent
        if above is None:
            continue
        sizes[above.number] += sizes[branch.number]
        if above.number not in heavy or sizes[branch.number] > sizes[heavy[above.number].number]:
            heavy[above.number] = branch
    return heavy
