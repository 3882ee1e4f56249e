"""Replays a recorded search against the algorithm: does it select the same parents and show the same kernels?"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from search.algorithm.decide import large_pool, small_window
from search.algorithm.params import SearchParams
from search.algorithm.policies import POLICIES
from search.algorithm.ranking import reward
from search.algorithm.tree import LARGE, Tree
from search.interchange.recording import RecordedStep, Recording


@dataclass(frozen=True)
class ReplayReport:
    """`parents` and `contexts` count the steps that came out as recorded; `first_miss` is the first wrong parent as
    (step, ours, recorded)."""

    steps: int
    parents: int
    contexts: int
    first_miss: tuple[int, int, int] | None = None


def replay_recording(recording: Recording, params: SearchParams) -> ReplayReport:
    """Before each recorded step select a parent from the tree so far, compare, then follow the recording."""
    tree, parents, contexts = Tree(log=params.log), 0, 0
    first_miss: tuple[int, int, int] | None = None
    for step in recording.steps:
        selected = POLICIES[params.policy](tree, params, tree.root, Random(0)).branch.number
        if selected == step.parent:
            parents += 1
        elif first_miss is None:
            first_miss = (step.number, selected, step.parent)
        contexts += _context_agrees(tree, step, params)
        tree.reserve(step.number, step.parent, step.kind)
        worth = reward(loads=step.loads, correct=step.correct, speedup=step.speedup)
        tree.tell(step.number, worth, speedup=(step.speedup or 0.0) if step.correct else None, written=bool(step.code))
    return ReplayReport(len(recording.steps), parents, contexts, first_miss)


def _context_agrees(tree: Tree, step: RecordedStep, params: SearchParams) -> bool:
    """The same kernels in the same order; of a pool that was too large, some subset of the right size, in any order."""
    parent = tree[step.parent]
    if step.kind != LARGE:
        return small_window(parent, params) == step.context
    unbounded = SearchParams(pool_size=50)
    pool = large_pool(tree, parent, unbounded, Random(0))
    if len(pool) <= params.pool_size:
        return pool == step.context
    return len(step.context) == len(set(step.context) & set(pool)) == params.pool_size
