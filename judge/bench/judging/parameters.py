"""Parameters and buffers: their values, read and drawn anew, and how the candidate's bind to the reference's."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import torch

from judge.bench.exchange.contact import Contact
from judge.bench.exchange.rows import Owned
from judge.bench.judging.completion import Ended
from judge.values import Verdict

STATISTICS = ("running_mean", "running_var")  # buffers that training changes; others are part of the module's text
NUDGE = 0.05  # relative change where another sign or size would leave what the module can compute


class State(dict[str, torch.Tensor]):
    """Qualified name -> content, parameters first, in the model's order.

    `seed` is the constructor's seed that gives exactly this content; None when it was drawn otherwise.
    """

    def __init__(self, tensors: Iterable[tuple[str, torch.Tensor]], seed: int | None = None) -> None:
        super().__init__(tensors)
        self.seed = seed


def named(model: object) -> dict[str, torch.Tensor]:
    """The model's own parameters and buffers by every name they have; {} for what is no torch.nn.Module."""
    if not isinstance(model, torch.nn.Module):
        return {}
    parameters = model.named_parameters(remove_duplicate=False)
    return {**dict(parameters), **dict(model.named_buffers(remove_duplicate=False))}


def parameter_names(model: object) -> list[str]:
    """Qualified names, each parameter once, in order."""
    return [name for name, _ in model.named_parameters()] if isinstance(model, torch.nn.Module) else []


def buffer_names(model: object) -> list[str]:
    """Qualified names of buffers, by every name they have."""
    if not isinstance(model, torch.nn.Module):
        return []
    return [name for name, _ in model.named_buffers(remove_duplicate=False)]


def is_statistic(name: str) -> bool:
    """Whether this buffer is one that training changes."""
    return name.rsplit(".", 1)[-1] in STATISTICS


def snapshot(model: object, seed: int | None = None) -> State:
    """Copies of everything that `named` gives."""
    return State(((name, tensor.detach().clone()) for name, tensor in named(model).items()), seed)


def put_back(model: object, state: dict[str, torch.Tensor]) -> None:
    """Copy `state` into the model's own tensors."""
    with torch.no_grad():
        for name, tensor in named(model).items():
            tensor.copy_(state[name])


def redrawn(model: object, first: State, redraw: Callable[[str, torch.Tensor], torch.Tensor], kept: set[str]) -> State:
    """`first` with new content for every name not in `kept`; tensors that are one in the model stay one."""
    drawn: dict[int, torch.Tensor] = {}
    rows = []
    for name, own in named(model).items():
        if id(own) not in drawn:
            drawn[id(own)] = first[name].clone() if name in kept else redraw(name, first[name])
        rows.append((name, drawn[id(own)]))
    return State(rows)


def changed(state: State, change: Callable[[torch.Tensor], torch.Tensor]) -> State:
    """`state` with `change` made to every tensor that may be drawn anew; tensors that are one stay one."""
    made = {id(tensor): change(tensor) if _drawable(tensor) else tensor for tensor in state.values()}
    return State((name, made[id(tensor)]) for name, tensor in state.items())


def redraw(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """New content for a parameter: its own spread plus an offset, so that fresh ones and zeros are not special.

    A fresh LayerNorm is nearly the identity (weight 1, bias 0); after this it is not. Positive running statistics
    ("var") stay positive. What holds infinities is a mask and stays.
    """
    if not _drawable(tensor):
        return tensor.clone()
    spread = float(_plain(tensor).std()) if tensor.numel() > 1 else 0.0
    fresh = spread == 0
    noise = torch.randn_like(tensor) * (0.25 if fresh else spread)
    if name.rsplit(".", 1)[-1].endswith("var"):
        return tensor.abs() + noise.abs()
    offset = fresh or float(_plain(tensor).abs().mean()) > 4 * spread
    return tensor + noise if offset else noise


def nudge(name: str, tensor: torch.Tensor) -> torch.Tensor:
    """As `redraw`, but only a little: signs and sizes stay."""
    return tensor * (1 + NUDGE * torch.randn_like(tensor)) if _drawable(tensor) else tensor.clone()


def _drawable(tensor: torch.Tensor) -> bool:
    floating = tensor.is_floating_point() or tensor.is_complex()
    return floating and tensor.numel() > 0 and bool(tensor.isfinite().all())


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    return (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).double()


HOOK = "load_reference_state"


@dataclass(frozen=True)
class Binding:
    """`pairs`: (candidate's name, reference's name); with `hook` the whole reference state goes to the hook.

    `seeded`: nothing fits, or what it was given does not reach its answer, but the policy lets the candidate make its
    own parameters from the reference's seed.
    `gradients`: the candidate's names of the parameters whose gradients are asked for.
    """

    pairs: tuple[tuple[str, str], ...]
    hook: bool
    seeded: bool = False
    by_position: bool = False
    gradients: tuple[str, ...] = ()

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
        contact.put_state(self.of(state), hook=self.hook, again=again, gradients=self.gradients)
        contact.held = state

    def with_gradients(self, wanted: Sequence[str]) -> Binding:
        """The same, asked for the gradients of these parameters of the reference. Raises Ended("load.params")."""
        theirs = {ours: name for name, ours in self.pairs}
        missing = [name for name in wanted if name not in theirs]
        if missing:
            named = ", ".join(missing[:40])
            raise Ended(
                Verdict.LOAD_FAILED,
                "load",
                "load.params",
                "the problem asks for gradients of parameters, so ModelNew needs every parameter of the reference as a "
                f"parameter of its own, with the same name and shape; these are missing: {named}.\n"
                f"Rearrange copies of them in prepare(), and return gradients in the reference's layout. {HOOK} cannot "
                "say whose gradient is whose.",
            )
        return replace(self, gradients=tuple(theirs[name] for name in wanted))


SEEDED = Binding((), hook=False, seeded=True)


def bind(
    rows: Sequence[Owned],
    hook: bool,
    state: dict[str, torch.Tensor],
    parameters: list[str],
    *,
    equal_seeding: bool = False,
) -> Binding:
    """Match the candidate's `rows` (name, kind, shape) to the reference `state`. Raises Ended("load.params").

    A hook is asked before positions count: who writes one knows better than the order of a constructor.
    """
    shapes = {name: tuple(tensor.shape) for name, tensor in state.items()}
    named = [row.name for row in rows if shapes.get(row.name) == row.shape]
    own = [row for row in rows if row.kind == "parameter"]
    all_named = all(row.name in named for row in own)
    if all_named and set(parameters) <= set(named):
        return Binding(tuple((name, name) for name in named), hook=False)
    if hook:
        return Binding((), hook=True)
    positions = [(row.name, name) for row, name in zip(own, parameters, strict=False)]
    agree = all(row.shape == shapes[name] for row, name in zip(own, parameters, strict=False))
    if len(own) == len(parameters) and agree:
        taken = {theirs for theirs, _ in positions}
        buffers = [(name, name) for name in named if name not in taken and name not in parameters]
        return Binding((*positions, *buffers), hook=False, by_position=True)
    if all_named and own:  # a parameter the candidate leaves out may be one the result does not need
        return Binding(tuple((name, name) for name in named), hook=False)
    if equal_seeding:
        return SEEDED
    raise Ended(Verdict.LOAD_FAILED, "load", "load.params", _message(own, shapes, parameters))


def _message(own: list[Owned], shapes: dict[str, tuple[int, ...]], parameters: list[str]) -> str:
    theirs = ", ".join(f"{row.name} {list(row.shape)}" for row in own[:40]) or "none"
    ours = ", ".join(f"{name} {list(shapes[name])}" for name in parameters[:40]) or "none"
    return (
        f"the parameters of ModelNew do not fit the reference's, neither by name nor by position.\n"
        f"reference: {ours}\nModelNew: {theirs}\n"
        f"Use the same names and shapes, or define ModelNew.{HOOK}(self, state) that takes {{name: tensor}}."
    )
