"""The next step of a search as a pure function of the tree, the parameters, a random generator and the steering."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from random import Random
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.policies import POLICIES, Selection
from search.algorithm.ranking import rank
from search.algorithm.steering import FREE, Pin, Steering, SteeringAction
from search.algorithm.tree import LARGE, SMALL, Branch, Tree


def component_best(start: Branch) -> Branch | None:
    """The fastest correct kernel among `start` and all nodes reached from it by small steps only, as they rank.

    What a person has pruned is not shown any more.
    """
    best: Branch | None = None
    stack = [start]
    while stack:
        branch = stack.pop()
        if branch.speedup is not None and not branch.closed and (best is None or _rank(branch) > _rank(best)):
            best = branch
        stack.extend(child for child in branch.children if child.kind == SMALL)
    return best


def _rank(branch: Branch) -> tuple[float, int]:
    return rank(branch.speedup, branch.number)


def large_pool(tree: Tree, branch: Branch, params: SearchParams, rng: Random) -> tuple[int, ...]:
    """Best correct kernel of each large-step ancestor's component (the node included), from the root down.

    More than `pool_size` of them: a random subset, order kept. Free places may take kernels from off the path.
    """
    path = [step for step in branch.up() if step.kind == LARGE][::-1]
    pool = [best.number for step in path if (best := component_best(step)) is not None]
    if len(pool) > params.pool_size:
        keep = sorted(rng.sample(range(len(pool)), params.pool_size))
        return tuple(pool[place] for place in keep)
    return (*pool, *_extras(tree, {step.number for step in path}, params.pool_size - len(pool), params, rng))


def _extras(tree: Tree, on_path: set[int], free: int, params: SearchParams, rng: Random) -> Iterable[int]:
    """Kernels of components off the path: k of them with P(k) ~ (1 - p)^k, drawn by softmax(speedup / T)."""
    most = min(free, params.pool_extra_max)
    if most <= 0:
        return
    left = [best for start, best in _component_bests(tree).items() if start not in on_path]
    most = min(most, len(left))
    count = rng.choices(range(most + 1), weights=[(1 - params.pool_extra_p) ** k for k in range(most + 1)])[0]
    for _ in range(count):
        top = max(branch.speedup or 0.0 for branch in left)
        weights = [math.exp(((branch.speedup or 0.0) - top) / params.pool_extra_t) for branch in left]
        drawn = rng.choices(left, weights=weights)[0]
        left.remove(drawn)
        yield drawn.number


def small_window(branch: Branch, params: SearchParams) -> tuple[int, ...]:
    """At most `window` nodes ending at `branch`, going up no further than its nearest large-step ancestor."""
    shown: list[int] = []
    for step in branch.up():
        if step.is_root or len(shown) == params.window:
            break
        shown.append(step.number)
        if step.kind == LARGE:
            break
    return tuple(shown[::-1])


def _component_bests(tree: Tree) -> dict[int, Branch]:
    """Best correct kernel of every component, by the number of its large step. One pass: parents come first."""
    starts: dict[int, int] = {}
    bests: dict[int, Branch] = {}
    for number, branch in tree.branches.items():
        if branch.kind == SMALL and branch.parent is not None:
            starts[number] = starts[branch.parent.number]
        else:
            starts[number] = number
        best = bests.get(starts[number])
        if branch.speedup is not None and not branch.closed and (best is None or _rank(branch) > _rank(best)):
            bests[starts[number]] = branch
    return bests


LEVELS_KEPT = 16  # of a very deep path, the last levels are recorded
BOOSTS_KEPT = 16


@dataclass(frozen=True)
class Decision:
    """Expand `parent` by a step of `kind`, showing the kernels `context`. `why` holds the parts of the decision.

    `steered` says which actions of people had a hand in it, by their place in the log: `pin`, `force`, `notes` to read,
    and `boosts`, the boosted nodes on the way. Empty when none had.
    """

    parent: int
    kind: str
    context: tuple[int, ...]
    why: dict[str, Any]
    steered: dict[str, Any] = field(default_factory=dict)

    @property
    def uses(self) -> tuple[int, ...]:
        """The pin and the forced step that this decision uses up."""
        return tuple(self.steered[name] for name in ("pin", "force") if name in self.steered)


def decide(tree: Tree, params: SearchParams, rng: Random, steering: Steering = FREE) -> Decision:
    """What to try next. Same tree, parameters, generator state and steering: the same decision.

    A forced step at a node comes first, then the oldest pin: the policy starts at its node. A forced kind without a
    node is taken at the first selected node where it is possible. What is pruned is never selected.
    """
    steering.mark(tree)
    force = steering.forced_at(tree)
    pin = None if force else steering.pinned_to(tree)
    if force is not None and force.node is not None:
        selection = Selection(tree[force.node])
    else:
        selection = POLICIES[params.policy](tree, params, tree[pin.node] if pin else tree.root, rng)
    branch = selection.branch
    force = force or steering.forced_kind(branch)
    kind, cause = (force.kind, {"because": "forced"}) if force else _kind(branch, params, rng)
    context = large_pool(tree, branch, params, rng) if kind == LARGE else small_window(branch, params)
    why = {
        "policy": params.policy,
        "levels": list(selection.levels[-LEVELS_KEPT:]),
        "levels_skipped": max(len(selection.levels) - LEVELS_KEPT, 0),
        "kind": cause,
    }
    return Decision(branch.number, kind, context, why, _steered(branch, steering, pin, force))


def _steered(branch: Branch, steering: Steering, pin: Pin | None, force: SteeringAction | None) -> dict[str, Any]:
    """Whose hand was in it, for the record."""
    hands: dict[str, Any] = {}
    if pin:
        hands["pin"] = pin.seq
    if force:
        hands["force"] = force.seq
    if notes := steering.notes_on(branch):
        hands["notes"] = list(notes)
    if steering.boosts and (boosts := [step.number for step in branch.up() if step.boost]):
        hands["boosts"] = boosts[::-1][-BOOSTS_KEPT:]
    return hands


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
