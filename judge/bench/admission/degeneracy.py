"""Does the output depend on inputs, operators and parameters? Finds outputs that are constant, near zero or blind."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.fx import Interpreter, Node

from judge.bench.admission.graph import references, tensors_in
from judge.bench.admission.reference_run import SEED, Reference, doubled, leaves, relative, spread
from judge.bench.exchange.parts import in_parts
from judge.bench.judging.parameters import State
from judge.values import Flaw
from judge.values.graph import OpGraph

# A difference below this share of the output's spread does not show.
INVISIBLE = 1e-5
NOISE_SHARE = {torch.float64: 1e-6, torch.float32: 1e-2}  # rounding error / spread; 16-bit types: 1e-1
REDRAWN = 31_000
MOST_INPUTS = 8  # more are not tried one by one

CONSTANT = Flaw(
    "problem.constant",
    "The output does not depend on the input: every element is the same constant. "
    "A softmax over a dimension of size 1 or the sum of a softmax does this.",
    "Check the dimensions of the last reductions, and what a clamp leaves.",
)
BLIND = Flaw(
    "problem.input_insensitive",
    "The output does not depend on the input: new inputs from get_inputs() left it unchanged.",
    "Use the inputs in forward.",
)
NOISE = Flaw(
    "problem.near_zero",
    "The output is rounding noise around zero: in exact arithmetic it vanishes. "
    "The mean over a dimension that LayerNorm has just centred does this.",
    "Return the tensor before the operator that cancels it.",
)


@dataclass(frozen=True)
class Draw:
    """One set of inputs and what the reference makes of it."""

    inputs: list[Any]
    output: Any
    leaves: list[torch.Tensor]


def draws_of(reference: Reference, first: Draw, count: int = 3) -> list[Draw]:
    """`first` and further draws with other inputs. Inputs that the factory does not vary are varied here."""
    found = [first]
    for number in range(1, count):
        inputs = reference.draw(REDRAWN + number)
        if same_values(inputs, first.inputs):
            inputs = varied(first.inputs, REDRAWN + number)
        output = reference.run(inputs)
        found.append(Draw(inputs, output, leaves(output)))
    return found


def varied(inputs: list[Any], seed: int, only: int | None = None) -> list[Any]:
    """Inputs with new values of the same mean and spread; integers stay in range. `only`: one tensor, by number."""
    number = -1

    def vary(value: Any) -> Any:
        nonlocal number
        if not isinstance(value, torch.Tensor):
            return value
        number += 1
        return value if only is not None and number != only else _vary(value, source(value, seed + number))

    return torch.utils._pytree.tree_map(vary, inputs)  # type: ignore[no-any-return]


def source(value: torch.Tensor, seed: int) -> torch.Generator:
    """A generator on the device of `value`."""
    return torch.Generator(device=value.device).manual_seed(seed)


def _vary(value: torch.Tensor, numbers: torch.Generator) -> torch.Tensor:
    if value.numel() == 0:
        return value
    if value.is_floating_point():
        middle = sum(float(part.double().sum()) for (part,) in in_parts(value)) / value.numel()
        width = spread(value) or max(1.0, max(float(part.abs().max()) for (part,) in in_parts(value)))
        out = torch.empty_like(value)
        for (part,) in in_parts(out):
            noise = torch.randn(part.shape, generator=numbers, device=value.device, dtype=torch.float64)
            part.copy_(middle + width * noise)
        return out
    if value.dtype == torch.bool:
        return torch.randint(0, 2, value.shape, generator=numbers, device=value.device).bool()
    if value.is_complex():
        return value * 1.5 + 0.5
    low, high = int(value.min()), int(value.max())
    return torch.randint(low, high + 1, value.shape, generator=numbers, device=value.device, dtype=value.dtype)


def same_values(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Whether two sets of inputs hold the same tensors."""
    pairs = zip(tensors_in(one), tensors_in(other), strict=False)
    return all(a.shape == b.shape and torch.equal(a, b) for a, b in pairs)


def fixed_inputs(reference: Reference, first: Draw) -> Flaw | None:
    """Inputs that are the same for every seed: what was learned from one run then answers the next."""
    if not same_values(reference.draw(REDRAWN), first.inputs):
        return None
    return Flaw(
        "problem.seed_insensitive",
        "get_inputs() returns the same values for every seed. Other values are used beside them.",
        "Draw them with torch.randn, torch.rand or torch.randint.",
        flags=False,
    )


def output_flaw(draws: list[Draw]) -> Flaw | None:
    """Constant outputs, and outputs that are the same for other inputs."""
    first = draws[0]
    if all(_is_constant([draw.leaves[i] for draw in draws]) for i in range(len(first.leaves))):
        return CONSTANT
    if all(relative(first.leaves, draw.leaves) < INVISIBLE for draw in draws[1:]):
        return BLIND
    return None


def _is_constant(values: list[torch.Tensor]) -> bool:
    low, high = math.inf, -math.inf
    for value in values:
        for (part,) in in_parts(value):
            finite = part[part.isfinite()].double()
            if finite.numel():
                low, high = min(low, float(finite.min())), max(high, float(finite.max()))
    return low <= high and high - low <= 1e-6 * max(abs(low), abs(high))


def rounding_flaw(reference: Reference, first: Draw) -> Flaw | None:
    """Outputs that are mostly rounding noise, by comparison with fp64. None also when fp64 cannot run."""
    kinds = [tensor.dtype for tensor in tensors_in(first.output) if tensor.is_floating_point()]
    if not kinds:
        return None
    try:
        exact = leaves(reference.double().run(doubled(first.inputs)))
    except (RuntimeError, TypeError, ValueError):
        return None  # a dtype written into forward: no oracle in fp64 then
    share = relative(exact, first.leaves)
    if share <= max(NOISE_SHARE.get(kind, 1e-1) for kind in kinds):
        return None
    largest, noise = (max(float(leaf.abs().max()) for leaf in found if leaf.numel()) for found in (exact, first.leaves))
    if largest < 1e-3 * noise:
        return NOISE
    return Flaw(
        "problem.ill_conditioned",
        f"The reference itself is off by {share:.1%} of the output's spread against fp64: no candidate can be judged.",
        "Avoid differences of large equal numbers, or compute them in float64.",
    )


def blind_inputs(reference: Reference, first: Draw) -> Flaw | None:
    """Input tensors that can change without any effect on the output; for the worth-knowing list only."""
    count = len(tensors_in(first.inputs))
    if not 2 <= count <= MOST_INPUTS:
        return None
    blind = []
    for number in range(count):
        output = _try(reference, varied(first.inputs, REDRAWN, only=number))
        if output is not None and relative(first.leaves, leaves(output)) < INVISIBLE:
            blind.append(str(number))
    if not blind:
        return None
    message = f"Input {', '.join(blind)} has no effect on the output."
    return Flaw("problem.unused_input", message, "Remove it, or use it in forward.", flags=False)


def _try(reference: Reference, inputs: list[Any]) -> Any:
    try:
        return reference.run(inputs)
    except (RuntimeError, ValueError, IndexError):
        return None  # the forward does not take such values: nothing can be said


# Results of these may be shifted out for numerical safety (x - max(x) before exp) without being dead.
_SHIFTS = ("aten.amax", "aten.amin", "aten.max", "aten.min", "aten.maximum", "aten.minimum", "aten.logsumexp")
_RESHAPES = (
    "aten.view", "aten.reshape", "aten.transpose", "aten.permute", "aten.t.", "aten.unsqueeze", "aten.squeeze",
    "aten.expand", "aten.slice", "aten.select", "aten.contiguous", "aten.to.", "aten.clone", "aten.flatten",
    "aten.detach", "aten.alias", "aten.lift_fresh", "aten.dropout", "aten.chunk", "aten.split",
)  # fmt: skip
# What only these read may wait for content that the trials do not hold.
_CHOICES = ("aten.where", "aten.masked_fill", "aten.masked_scatter", "aten.masked_select", "aten.index_put")


@dataclass(frozen=True)
class Trial:
    """Inputs to run the graph on, and the parameters and buffers (by qualified name) that it has then."""

    inputs: Sequence[Any]
    state: Mapping[str, torch.Tensor]


class _Replacing(Interpreter):  # type: ignore[misc]
    """Runs a graph; the node called `victim` gives `number` everywhere instead of its values, its mean where None."""

    def __init__(self, module: Any, victim: str = "", number: float | None = None) -> None:
        super().__init__(module)
        self.victim = victim
        self.number = number
        self.changed = False  # the victim had other values than its mean

    def run_node(self, n: Node) -> Any:
        value = super().run_node(n)
        if n.name != self.victim:
            return value
        if self.number is None:
            self.number = value.double().mean().item()
        flat = torch.full_like(value, self.number)
        self.changed = relative([value], [flat]) >= INVISIBLE
        return flat


def dead_flaw(
    program: Any, trials: Sequence[Trial], *, line: Callable[[str], str], budget_s: float, clock: Callable[[], float]
) -> Flaw | None:
    """The first operator of an exported program that shows on no trial; None also when time runs out.

    `line` gives the source line of a node, or "". The program's parameters are left as they were.
    """
    module = program.module()
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    before = {name: tensor.detach().clone() for name, tensor in own.items()}
    stop = clock() + budget_s
    try:
        with torch.no_grad():
            bases = [_run(_Replacing(module), own, trial) for trial in trials]
            for node in _candidates(module):
                if clock() > stop:
                    return None
                if _is_dead(module, own, node.name, trials, bases):
                    return _flaw(node, line(node.name))
    finally:
        _load(own, before)
    return None


def _is_dead(
    module: Any, own: dict[str, torch.Tensor], name: str, trials: Sequence[Trial], bases: list[list[torch.Tensor]]
) -> bool:
    """Whether one number stands for its result, whatever the inputs; a sum over all needs each one's own mean."""
    informative, number = False, None
    for trial, base in zip(trials, bases, strict=True):
        if not all(bool(value.isfinite().all()) for value in base):
            return False
        runner = _Replacing(module, name, number)
        if relative(base, _run(runner, own, trial)) >= INVISIBLE:
            return False
        informative, number = informative or runner.changed, runner.number
    return informative


def _run(runner: _Replacing, own: dict[str, torch.Tensor], trial: Trial) -> list[torch.Tensor]:
    _load(own, trial.state)
    torch.manual_seed(SEED)
    copies = [item.clone() if isinstance(item, torch.Tensor) else item for item in trial.inputs]
    return leaves(runner.run(*copies))


def _load(own: dict[str, torch.Tensor], state: Mapping[str, torch.Tensor]) -> None:
    with torch.no_grad():
        for name, tensor in own.items():
            if name in state and state[name].shape == tensor.shape:
                tensor.copy_(state[name])


def _candidates(module: Any) -> list[Node]:
    """Floating results of more than one element that come from an input, are used, and are no mere reshaping."""
    from_input: set[Node] = set()
    shifts: set[Node] = set()
    chosen = []
    for node in module.graph.nodes:
        name = str(node.target)
        fed = [source for source in node.all_input_nodes if source in from_input]
        if node.op == "placeholder" or fed:
            from_input.add(node)
        if node.op != "call_function" or not fed:
            continue
        if name.startswith(_SHIFTS) or all(source in shifts for source in fed):
            shifts.add(node)
            continue
        value = node.meta.get("val")
        plain = isinstance(value, torch.Tensor) and value.is_floating_point() and value.numel() > 1
        chosen_from = bool(node.users) and all(str(user.target).startswith(_CHOICES) for user in node.users)
        if plain and node.users and not chosen_from and not name.startswith((*_RESHAPES, "<built-in")):
            chosen.append(node)
    return chosen


def _flaw(node: Node, line: str) -> Flaw:
    shape = list(node.meta["val"].shape)
    where = f" (`{line}`)" if line else ""
    return Flaw(
        "problem.dead_ops",
        f"The result of {node.target} {shape}{where} has no effect: one number in its places gives the same output.",
        "Remove what computes it, or the operator that cancels it.",
    )


SMALL_PART = 0.1  # of all used elements: a bias before a normalisation, not the weight of a layer


def used_parameters(graph: OpGraph | None) -> frozenset[str]:
    """Qualified names of the parameters that some operator reads."""
    if graph is None:
        return frozenset()
    read = {name for node in graph.nodes for name in references((node.args, node.kwargs))}
    return frozenset(node.target for node in graph.nodes if node.op == "parameter" and node.name in read)


def parameter_flaw(
    reference: Reference, first: Draw, used: Iterable[str], *, each: bool, more: Callable[[], bool]
) -> Flaw | None:
    """Weights without effect: all of them, or (with `each`) some that the forward uses all the same.

    Looked at as constructed and with other parameters: a residual branch that starts at zero is not dead. A small
    part of them, such as the bias of a layer in front of a batch normalisation, is worth knowing only. `more` says
    whether there is time for another one.
    """
    sizes = {name: value.numel() for name, value in reference.model.named_parameters() if value.is_floating_point()}
    if not sizes:
        return None
    effects = [_Effects(reference, first, state) for state in (reference.first, reference.redrawn())]
    if not any(effect.shows(list(sizes)) for effect in effects):
        return Flaw(
            "problem.param_insensitive",
            "The output does not depend on any parameter of the module.",
            "Use the parameters in forward, or remove them.",
        )
    read = sorted(set(used) & set(sizes)) if each else []
    silent = [name for name in read if more() and not any(effect.shows([name]) for effect in effects)]
    return _silent(silent, sum(sizes[name] for name in silent) / sum(sizes.values())) if silent else None


def _silent(names: list[str], part: float) -> Flaw:
    one = len(names) == 1
    return Flaw(
        "problem.dead_ops" if part > SMALL_PART else "problem.silent_parameters",
        f"{'The parameter' if one else 'The parameters'} {', '.join(names[:6])} {'has' if one else 'have'} no effect "
        f"on the output: what {'it feeds' if one else 'they feed'} is cancelled, "
        "like a bias just before a normalisation.",
        "Leave it out (bias=False), or keep what it feeds.",
        flags=part > SMALL_PART,
    )


class _Effects:
    """What changes of single parameters do to the output, from one state of all of them."""

    def __init__(self, reference: Reference, first: Draw, state: State) -> None:
        self.reference = reference
        self.inputs = first.inputs
        self.state = state
        self.base = leaves(reference.run(first.inputs, state=state))

    def shows(self, names: list[str]) -> bool:
        changed = State(self.state.items())
        for number, name in enumerate(names):
            changed[name] = _shifted(self.state[name], REDRAWN + number)
        try:
            output = self.reference.run(self.inputs, state=changed)
        except (RuntimeError, ValueError):
            return True  # a parameter that can break forward is not without effect
        return relative(self.base, leaves(output)) >= INVISIBLE


def _shifted(value: torch.Tensor, seed: int) -> torch.Tensor:
    noise = torch.randn(value.shape, generator=source(value, seed), device=value.device, dtype=torch.float64)
    return value + (max(1.0, 3 * spread(value)) * noise).to(value.dtype)
