"""Which of the candidate's parameters and buffers take the reference's values: by name, by position, by its hook."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.exchange.contact import Contact
from judge.bench.judging.endings import Ended
from judge.bench.judging.state import State
from judge.values import Verdict

HOOK = "load_reference_state"


@dataclass(frozen=True)
class Fit:
    """`pairs`: (candidate's name, reference's name); with `hook` the whole reference state goes to the hook.

    `seeded`: nothing fits, or what it was given does not reach its answer, but the policy lets the candidate make its
    own parameters from the reference's seed.
    """

    pairs: tuple[tuple[str, str], ...]
    hook: bool
    seeded: bool = False
    by_position: bool = False

    def of(self, state: dict[str, torch.Tensor]) -> list[tuple[str, torch.Tensor]]:
        """The state as the candidate takes it."""
        if self.hook:
            return list(state.items())
        return [(theirs, state[ours]) for theirs, ours in self.pairs]

    def theirs(self, ours: str) -> str:
        """The candidate's name for a tensor of the reference; the same where the candidate chose its own layout."""
        return next((theirs for theirs, name in self.pairs if name == ours), ours)

    def give(self, contact: Contact, state: State, *, again: bool) -> None:
        """Let the subject have `state`, `again` when it has had one before. Raises SubjectFailed."""
        if self.seeded and state.seed is not None:
            contact.reconstruct(state.seed)
        contact.put_state(self.of(state), hook=self.hook, again=again)


SEEDED = Fit((), hook=False, seeded=True)


def fit(
    rows: list[dict[str, Any]],
    hook: bool,
    state: dict[str, torch.Tensor],
    parameters: list[str],
    *,
    equal_seeding: bool = False,
) -> Fit:
    """Match the candidate's `rows` (name, kind, shape) to the reference `state`. Raises Ended("load.params").

    A hook is asked before positions count: who writes one knows better than the order of a constructor.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    named = [row["name"] for row in rows if shapes.get(row["name"]) == tuple(row["shape"])]
    own = [row for row in rows if row["kind"] == "parameter"]
    all_named = all(row["name"] in named for row in own)
    if all_named and set(parameters) <= set(named):
        return Fit(tuple((name, name) for name in named), hook=False)
    if hook:
        return Fit((), hook=True)
    positions = [(row["name"], name) for row, name in zip(own, parameters, strict=False)]
    agree = all(tuple(row["shape"]) == shapes[name] for row, name in zip(own, parameters, strict=False))
    if len(own) == len(parameters) and agree:
        taken = {theirs for theirs, _ in positions}
        buffers = [(name, name) for name in named if name not in taken and name not in parameters]
        return Fit((*positions, *buffers), hook=False, by_position=True)
    if all_named and own:  # a parameter the candidate leaves out may be one the result does not need
        return Fit(tuple((name, name) for name in named), hook=False)
    if equal_seeding:
        return SEEDED
    raise Ended(Verdict.LOAD_FAILED, "load", "load.params", _message(own, shapes, parameters))


def _message(own: list[dict[str, Any]], shapes: dict[str, tuple[int, ...]], parameters: list[str]) -> str:
    theirs = ", ".join(f"{row['name']} {list(row['shape'])}" for row in own[:40]) or "none"
    ours = ", ".join(f"{name} {list(shapes[name])}" for name in parameters[:40]) or "none"
    return (
        f"the parameters of ModelNew do not fit the reference's, neither by name nor by position.\n"
        f"reference: {ours}\nModelNew: {theirs}\n"
        f"Use the same names and shapes, or define ModelNew.{HOOK}(self, state) that takes {{name: tensor}}."
    )
