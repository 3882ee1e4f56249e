"""The next step of a search as a pure function of the tree, the parameters, a random generator and the steering."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from search.algorithm.params import SearchParams
from search.algorithm.policies import POLICIES, Selection
from search.algorithm.pool import large_pool, small_window
from search.algorithm.steering import FREE, Act, Pin, Steering
from search.algorithm.tree import LARGE, SMALL, Branch, Tree

LEVELS_KEPT = 16  # of a very deep path, the last levels are recorded
BOOSTS_KEPT = 16


@dataclass(frozen=True)
class Decision:
    """Expand `parent` by a step of `kind`, showing the kernels `context`. `why` holds the parts of the decision.

    `steered` says which acts of people had a hand in it, by their place in the log: `pin`, `force`, `notes` to read,
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


def _steered(branch: Branch, steering: Steering, pin: Pin | None, force: Act | None) -> dict[str, Any]:
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
