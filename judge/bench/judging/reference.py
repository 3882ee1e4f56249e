"""The reference inside the referee: its parameters, its inputs, its answers in each type."""

from __future__ import annotations

import copy
import secrets
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from judge.bench.device import memory
from judge.bench.exchange.claims import Constructed
from judge.bench.exchange.known_draws import KnownDraws
from judge.bench.exchange.nested import cloned, copied, mapped, ordered, packed
from judge.bench.foreign import factories, random_state
from judge.bench.foreign.aliasing import HandedOut, overlaps
from judge.bench.foreign.faults import kind_of
from judge.bench.foreign.gradients import BETWEEN, asked_for
from judge.bench.foreign.loading import LoadedProblem
from judge.bench.foreign.whereabouts import FORWARD
from judge.bench.judging import parameters as states
from judge.bench.judging.asked_gradients import Asked, Layouts
from judge.bench.judging.emulation import ReducedProducts
from judge.bench.judging.families import reshaped, varied
from judge.bench.judging.freedoms import ANYTHING, Freedom
from judge.bench.judging.memory_plan import WHOLE, MemoryPlan
from judge.bench.judging.parameters import State
from judge.bench.judging.precision import rounded
from judge.bench.judging.probes import Probe
from judge.bench.judging.traits import Traits
from judge.values import ALTERNATIVES, DEFAULT_POLICY, SWITCHES, Gradients, Policy, Precision

# What a reference raises on content or types it was not made for.
REFUSALS = (
    RuntimeError, TypeError, ValueError, AttributeError, AssertionError, LookupError, ArithmeticError,
)  # fmt: skip
KEPT_BYTES = 2 << 30  # a wider copy of a larger model is made anew each time, and so are its parameters
KEPT_SEEDS = 2  # constructions whose parameters are kept


@dataclass(frozen=True)
class Answer:
    """What one run left behind: outputs in order, inputs as they are afterwards, the state that it changed."""

    template: Any
    outputs: list[torch.Tensor]
    inputs: list[torch.Tensor]
    state: dict[str, torch.Tensor]
    aliases: list[list[int]]  # [output, input] that share memory

    def parts(self, written: list[int]) -> list[torch.Tensor]:
        """What another run can be compared with: outputs, the inputs with these numbers, changed state."""
        return [*self.outputs, *(self.inputs[number] for number in written), *self.state.values()]


@dataclass
class Learned:
    """What is true of a reference whatever the content; found out at its first question."""

    traits: Traits
    random: frozenset[int]  # outputs that are drawn: another seed, other numbers
    fp64: bool  # its oracle is in fp64; None of it for what draws, or writes a dtype down
    in_slices: bool | None = None  # whether rows can be answered alone; None where nobody has asked
    cut: frozenset[int] | None = None  # the input tensors that have those rows
    condenses: float = 1.0  # elements of all inputs over those of all outputs
    unfit: dict[Probe, int] = field(default_factory=dict)  # how many amounts of a probe it has no telling answer for


class Reference:
    """Runs the problem's own model under its policy. Seeds are drawn by the referee from the system's entropy."""

    def __init__(self, loaded: LoadedProblem, device: str, policy: Policy = DEFAULT_POLICY) -> None:
        self.loaded = loaded
        self.device = device
        self.policy = policy
        self.whereabouts = loaded.whereabouts
        self.construct_seed = secrets.randbits(31)
        random_state.reset(self.construct_seed)
        self.init = loaded.get_init_inputs()
        packed(self.init, "get_init_inputs()")  # raises NotCarried
        self.draws = KnownDraws()
        with self.draws.kept():
            self.model = self._constructed(self.construct_seed)
        self.first = states.snapshot(self.model, self.construct_seed)
        self.changing: tuple[str, ...] | None = None  # names of parameters and buffers that forward writes to
        self.learned: Learned | None = None
        self.was_short = False  # of memory: it may have learned less than there is, and others may have held it
        self.plan: MemoryPlan | None = None  # made at the first question
        self.oracle = WHOLE  # how it was computed last
        self.kept: set[int] = set()  # outputs that lie in memory that it keeps between calls
        self.gradients = Asked(self.policy, self.model)
        self._handed_out = HandedOut()
        self._wider: dict[torch.dtype, Any] = {}
        self._fixed: set[str] | None = None
        self._reseeded: deque[State] = deque()
        self._drawn: list[tuple[float, ...]] = []  # what the first draws of get_inputs() were like

    def _constructed(self, seed: int) -> Any:
        """Model(*init) as its constructor leaves it when the generators stand at `seed`, then under the policy."""
        init = cloned(self.init)
        random_state.reset(seed)
        with torch.no_grad():
            return factories.under(self.policy, self.loaded.Model(*init), self.device)

    def bound(self, built: Constructed) -> states.Binding:
        """How the parameters of a child that answered `built` match these. Raises Ended("load.params")."""
        names, seeding = states.parameter_names(self.model), self.policy.equal_seeding
        found = states.bind(built.state, built.hook, self.first, names, equal_seeding=seeding)
        return found.with_gradients(self.gradients.parameters)

    def redrawn(self, *, gently: bool = False) -> State:
        """New parameters. Buffers that every construction makes alike are part of the module and stay."""
        redraw = states.nudge if gently else states.redraw
        return states.redrawn(self.model, self.first, redraw, self._fixed_buffers())

    def reseeded(self) -> State:
        """Parameters as another construction makes them: what a candidate can follow that knows the seed only.

        Constructing a large model takes a second: two constructions give theirs by turns, to every candidate.
        """
        if len(self._reseeded) == KEPT_SEEDS:
            self._reseeded.rotate(-1)
            return self._reseeded[-1]
        seed = secrets.randbits(31)
        found = states.snapshot(self._constructed(seed), seed)
        if KEPT_SEEDS * sum(tensor.nbytes for tensor in found.values()) <= KEPT_BYTES:
            self._reseeded.append(found)
        return found

    def _fixed_buffers(self) -> set[str]:
        if self._fixed is None:
            doubtful = [name for name in states.buffer_names(self.model) if not states.is_statistic(name)]
            other = self.reseeded() if doubtful else {}
            self._fixed = {name for name in doubtful if torch.equal(other[name], self.first[name])}
        return self._fixed

    def inputs(self, family: str, seed: int, freedom: Freedom = ANYTHING) -> list[Any]:
        """Fresh inputs of `family`, made on the device where the policy and the problem's factory let us.

        A factory that gives the same numbers each time is varied: no two calls may see equal content. Where gradients
        are asked for, random cotangents of the same family are the last argument.
        """
        made = factories.made(self.loaded.get_inputs, self.policy, self.device, seed)
        if family == "given" and self._gives_the_same(made):
            made = list(mapped(varied, made))
        if self.policy.gradients is Gradients.NONE:
            return list(reshaped(family, made, freedom))
        given = list(reshaped(family, made, freedom))
        cotangents = self.gradients.cotangents(made, self.device, seed, lambda: self._layouts(made, seed))
        return [*given, asked_for(reshaped(family, cotangents, freedom), between=family == BETWEEN)]

    def _layouts(self, made: list[Any], seed: int) -> Layouts:
        self.load(self.first)
        random_state.reset(seed)
        with self.whereabouts.inside(FORWARD):
            return self.gradients.calls(self.model).layouts(self.model, made)

    def _gives_the_same(self, made: list[Any]) -> bool:
        """Whether get_inputs() does not vary, told by its first two draws; the first of all counts as varied."""
        if len(self._drawn) < 2:
            tensors = [one for one in packed(made)[1] if not one.is_complex() and one.dtype != torch.bool]
            self._drawn.append(tuple(float(tensor.sum(dtype=torch.float64)) for tensor in tensors))
        return len(self._drawn) == 2 and self._drawn[0] == self._drawn[1]

    def load(self, state: State, model: Any = None) -> None:
        states.put_back(self.model if model is None else model, state)

    def run(self, inputs: list[Any], state: State, seed: int) -> Any:
        """The honest same-dtype answer. Inputs are used as they are: clone them before if they matter."""
        return self._called(self.model, inputs, state, seed)

    def outputs(self, inputs: list[Any], seed: int, state: State | None = None) -> list[torch.Tensor]:
        """Output tensors of one run on copies of `inputs`, with the first parameters unless others are given."""
        return packed(self.run(cloned(inputs), self.first if state is None else state, seed))[1]

    def _called(self, model: Any, inputs: list[Any], state: State, seed: int) -> Any:
        self.load(state, model)
        random_state.reset(seed)
        calls = self.gradients.calls(model)
        with self.whereabouts.inside(FORWARD), torch.no_grad():
            return ordered(calls(model, inputs))

    def called_with(self, *inputs: Any) -> Any:
        """One call under the policy, with parameters and random state as they are."""
        return self.gradients.calls(self.model)(self.model, inputs)

    def answer(self, inputs: list[Any], state: State, seed: int) -> Answer:
        """One run on copies of `inputs`, in the problem's own types."""
        return self._answered(self.model, cloned(inputs), state, seed)

    def answer_in(self, dtype: torch.dtype, inputs: list[Any], state: State, seed: int) -> Answer | None:
        """One run with floating inputs and parameters in `dtype`; None where the reference refuses it."""
        return self.attempt(
            lambda: self._answered(self._copy_in(dtype), copied(inputs, lambda t: _cast(t, dtype)), state, seed)
        )

    def answer_at(self, kind: str, inputs: list[Any], state: State, seed: int, *, wide: bool) -> Answer | None:
        """One run on inputs and parameters rounded to `kind`, computed in fp64 with `wide`; None where it refuses."""
        return self.attempt(lambda: self._near(kind, inputs, state, seed, wide=wide))

    def _near(self, kind: str, inputs: list[Any], state: State, seed: int, *, wide: bool) -> Answer:
        near = rounded(cloned(inputs), kind)
        coarse = State(((name, rounded(tensor, kind)) for name, tensor in state.items()))
        if not wide:
            return self._answered(self.model, near, coarse, seed)
        return self._answered(self._copy_in(torch.float64), copied(near, _wide), coarse, seed)

    def answer_reduced(self, kind: str, inputs: list[Any], state: State, seed: int) -> Answer | None:
        """One run in which the operators that the policy's switches let use TF32 get operands rounded to `kind`."""
        with ReducedProducts(SWITCHES[self.policy.precision], kind):
            return self.attempt(lambda: self._answered(self.model, cloned(inputs), state, seed))

    def under(self, precision: Precision) -> Reference:
        """The same reference, asked what is right under other numerics. The caller sets torch's switches."""
        other = copy.copy(self)
        other.policy = replace(self.policy, precision=precision)
        return other

    def no_alternatives(self, *, on_gpu: bool) -> dict[str, str]:
        """By name why a baseline would be no other than eager, told by the operators that the first question called."""
        traits = self.learned.traits if self.learned is not None else Traits()
        found = {
            one.name: one.why_not(
                precision=self.policy.precision, operators=traits.operators, fp32=traits.fp32, on_gpu=on_gpu
            )
            for one in ALTERNATIVES
        }
        return {name: why_not for name, why_not in found.items() if why_not}

    def _answered(self, model: Any, used: list[Any], state: State, seed: int) -> Answer:
        out = self._called(model, used, state, seed)
        template, outputs = packed(out, "the reference's output")
        _, after = packed(used)
        if self.changing is None:
            self.changing = tuple(
                name for name, own in states.named(model).items() if not torch.equal(own.detach(), state[name])
            )
        named = states.named(model)
        self.kept.update(self._handed_out.kept(outputs, after, list(named.values())))
        own = named if self.changing else {}
        return Answer(
            template,
            [tensor.detach().clone() for tensor in outputs],
            after,
            {name: own[name].detach().clone() for name in self.changing},
            overlaps(outputs, after),
        )

    def _copy_in(self, dtype: torch.dtype) -> Any:
        known = self._wider.get(dtype)
        if known is not None:
            return known
        model = copy.deepcopy(self.model)
        if isinstance(model, torch.nn.Module):
            model = model._apply(lambda tensor: _cast(tensor, dtype))
        if sum(tensor.nbytes for tensor in states.named(model).values()) <= KEPT_BYTES:
            self._wider[dtype] = model
        return model

    @property
    def lean(self) -> bool:
        """Whether copies are made one after another, since the device does not hold them all."""
        return self.plan is not None and self.plan.lean

    def planned(self, inputs: list[Any], state: State, seed: int) -> Answer:
        """As `answer`; the first one tells what judging takes."""
        if self.plan is not None:
            return self.answer(inputs, state, seed)
        before = memory.begin_peak(self.device)
        answer = self.answer(inputs, state, seed)
        taken = memory.peak_bytes(self.device) - before if self.device != "cpu" else None
        room = memory.room_bytes(self.device)
        self.plan = MemoryPlan.of(packed(inputs)[1], answer.outputs, list(state.values()), taken, room)
        return answer

    def by_turns(self, taken: list[int]) -> bool:
        """As the plan says, of children that took so many bytes."""
        return self.plan is not None and self.plan.by_turns(taken)

    def relieve(self) -> None:
        """Leave what is not in use to other processes, where memory is short."""
        if self.lean:
            memory.relieve(self.device)

    def attempt(self, run: Callable[[], Answer]) -> Answer | None:
        """What `run()` returns; None where the reference raises what a module raises on types not made for it."""
        try:
            return run()
        except REFUSALS as error:
            self.note(error)
            return None

    def note(self, refusal: Exception) -> None:
        """Something was not to be had for `refusal`, and is done without."""
        self.was_short = self.was_short or kind_of(refusal) == "oom"

    def begin_anew(self) -> None:
        """Another candidate comes: fp64 is tried again, which one question's content may have refused."""
        if self.learned is not None:
            self.learned.fp64 = not self.learned.random


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return _cast(tensor, torch.float64)


def _cast(tensor: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A copy in `dtype`; complex tensors in the complex type of that width where there is one, integers as they are."""
    tensor = tensor.detach()
    if tensor.is_floating_point():
        return tensor.to(dtype, copy=True)
    if tensor.is_complex() and dtype == torch.float64:
        return tensor.to(torch.complex128, copy=True)
    return tensor.clone()
