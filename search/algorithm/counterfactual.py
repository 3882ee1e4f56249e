"""What another policy or other parameters would decide on the same tree, with the parts of every score it compared."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from types import MappingProxyType

from search.algorithm.decide import LEVELS_KEPT, Decision, decide
from search.algorithm.params import SearchParams
from search.algorithm.policies import expand_spread
from search.algorithm.steering import FREE, Steering
from search.algorithm.tree import Branch, Tree

ARMS_KEPT = 12  # at one place, the best first; the chosen one is always kept


@dataclass(frozen=True)
class Arm:
    """One thing that could have been done at node `at`: go to the child `node`, or expand `at` itself (`node` None).

    `score` is the sum of `parts`: value, exploration and boost, as far as the policy has them.
    """

    at: int
    node: int | None
    score: float
    parts: Mapping[str, float]
    chosen: bool


@dataclass(frozen=True)
class Counterfactual:
    """The decision that would be made, and the arms compared on the way to it. A policy that compares no scores, or a
    step that a person has forced, has none. `hidden` arms with low scores are left out."""

    policy: str
    decision: Decision
    arms: tuple[Arm, ...]
    hidden: int = 0


def counterfactual(tree: Tree, params: SearchParams, rng: Random, steering: Steering = FREE) -> Counterfactual:
    """What `decide` would do with these parameters, and why."""
    decision = decide(tree, params, rng, steering)
    path = _path(tree, decision, steering)
    arms = ARMS.get(params.policy, _no_arms)(tree, params, path) if path else []
    kept = [arm for level in _by_place(arms) for arm in _best(level)]
    return Counterfactual(params.policy, decision, tuple(kept), len(arms) - len(kept))


def _path(tree: Tree, decision: Decision, steering: Steering) -> list[Branch]:
    """From where the policy began to the node it chose; empty when it was not asked."""
    force = steering.action(decision.steered.get("force", -1))
    if force is not None and force.node is not None:
        return []
    pin = steering.action(decision.steered.get("pin", -1))
    path: list[Branch] = []
    for branch in tree[decision.parent].up():
        path.append(branch)
        if pin is not None and branch.number == pin.node:
            break
    return path[::-1]


def uct_arms(tree: Tree, params: SearchParams, path: list[Branch]) -> list[Arm]:
    """Per level the child arms and the expand arm of the reference policy; see `policies.uct` for the formulas."""
    arms: list[Arm] = []
    below: Branch | None
    for branch, below in list(zip(path, [*path[1:], None], strict=True))[-LEVELS_KEPT:]:
        log_visits = math.log(max(branch.visits + branch.pending, 1))
        values = {child: _value(child, params) for child in branch.children if child.told and not child.closed}
        for child, value in values.items():
            spread = params.w * math.sqrt(log_visits / (child.visits + child.pending))
            parts = {"value": value, "exploration": spread, "boost": child.boost}
            arms.append(Arm(branch.number, child.number, value + spread + child.boost, parts, child is below))
        if branch.children:
            value = max(values.values()) if values else _mean(branch)
            spread = expand_spread(log_visits, len(branch.children), params)
            parts = {"value": value, "exploration": spread}
            arms.append(Arm(branch.number, None, value + spread, parts, below is None))
    return arms


def greedy_arms(tree: Tree, params: SearchParams, path: list[Branch]) -> list[Arm]:
    """Every node at or below the start with its own reward: greedy takes the best of them."""
    start = path[0]
    candidates = [branch for branch in start.down() if branch.told and not branch.closed and not branch.is_root]
    return [
        Arm(
            start.number,
            branch.number,
            branch.own + branch.boost,
            {"value": branch.own, "boost": branch.boost},
            branch is path[-1],
        )
        for branch in sorted(candidates, key=lambda branch: branch.number)
    ]


def _no_arms(tree: Tree, params: SearchParams, path: list[Branch]) -> list[Arm]:
    return []


ARMS: Mapping[str, Callable[[Tree, SearchParams, list[Branch]], list[Arm]]] = MappingProxyType(
    {"uct": uct_arms, "greedy": greedy_arms}
)


def _value(branch: Branch, params: SearchParams) -> float:
    return params.alpha * branch.best + (1 - params.alpha) * branch.total / branch.visits


def _mean(branch: Branch) -> float:
    return branch.total / branch.visits if branch.visits else 0.0


def _by_place(arms: list[Arm]) -> list[list[Arm]]:
    places: dict[int, list[Arm]] = {}
    for arm in arms:
        places.setdefault(arm.at, []).append(arm)
    return list(places.values())


def _best(arms: list[Arm]) -> list[Arm]:
    ranked = sorted(arms, key=lambda arm: (not arm.chosen, -arm.score))[:ARMS_KEPT]
    return sorted(ranked, key=lambda arm: -arm.score)
