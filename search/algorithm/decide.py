"""The next step of a search as a pure function of the tree, the parameters and a random generator."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.policies import POLICIES
from search.algorithm.pool import large_pool, small_window
from search.algorithm.tree import LARGE, SMALL, Branch, Tree

LEVELS_KEPT = 16  # of a very deep path, the last levels are recorded


@dataclass(frozen=True)
class Decision:
    """Expand `parent` by a step of `kind`, showing the kernels `context`. `why` holds the parts of the decision."""

    parent: int
    kind: str
    context: tuple[int, ...]
    why: dict[str, Any]


def decide(tree: Tree, params: SearchParams, rng: Random) -> Decision:
    """What to try next. Same tree, parameters and generator state: the same decision."""
    selection = POLICIES[params.policy](tree, params)
    branch = selection.branch
    kind, cause = _kind(branch, params, rng)
    context = large_pool(tree, branch, params, rng) if kind == LARGE else small_window(branch, params)
    why = {
        "policy": params.policy,
        "levels": list(selection.levels[-LEVELS_KEPT:]),
        "levels_skipped": max(len(selection.levels) - LEVELS_KEPT, 0),
        "kind": cause,
    }
    return Decision(branch.number, kind, context, why)


def _kind(branch: Branch, params: SearchParams, rng: Random) -> tuple[str, dict[str, Any]]:
    """Large at the root, where there is no source to patch and after `small_step_limit` small steps; else by chance."""
    small_children = sum(child.kind == SMALL for child in branch.children)
    cause: dict[str, Any] = {"small_children": small_children, "small_step_limit": params.small_step_limit}
    if branch.is_root:
        return LARGE, {**cause, "because": "root"}
    if not branch.written:
        return LARGE, {**cause, "because": "no_source"}
    if small_children >= params.small_step_limit:
        return LARGE, {**cause, "because": "limit"}
    draw = rng.random()
    kind = LARGE if draw < params.p_large else SMALL
    return kind, {**cause, "because": "chance", "draw": draw, "p_large": params.p_large}


def node_rng(seed: int, number: int) -> Random:
    """The generator of node `number`: depends on nothing else, so that resuming and replaying are exact."""
    return Random(f"{seed}:{number}")
