"""Derives sealed cases: other sizes, layouts, broadcasts and values that the reference itself takes.

The same seed and the same machine give the same cases; without the seed nobody knows which of many they are. They stay
near the evaluated case's size, so that whoever solves the problem can be asked.
"""

from __future__ import annotations

import random
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from judge.bench.exchange.nested import NotCarried, packed
from judge.bench.foreign.loading import PROBLEM, LoadedProblem, LoadError, load_problem
from judge.bench.judging.asking import Questions
from judge.bench.judging.families import FAMILIES
from judge.bench.judging.reference import REFUSALS, Reference
from judge.bench.judging.variants import applied
from judge.values import Policy, SealedCase

MOST = 4  # each costs a process in every audit
SIZES = 2  # of them, at least, where the reference takes other sizes
LEAST_SIZE, MOST_SIZE = 5, 1 << 32  # smaller constants are options: a stride, an axis, the size of a window
STEPS = 4  # kinds of other sizes that are tried of one constant
BUDGET_S = 20.0
MOST_ELEMENTS = 2.0  # times the evaluated case's: more, and a candidate may want memory or time
SPECIAL_SIZES = (1e4, 30.0)  # the second for a reference that takes exponentials

Case = Mapping[str, Any]
Shapes = list[tuple[torch.dtype, tuple[int, ...]]]


@dataclass(frozen=True)
class Facts:
    """Shapes of inputs, parameters and outputs under one case."""

    inputs: Shapes
    state: Shapes
    outputs: Shapes

    @property
    def elements(self) -> int:
        return sum(_count(shape) for _, shape in (*self.inputs, *self.outputs))

    def resembles(self, other: Facts) -> bool:
        """Whether both have the same numbers of tensors, of equal dtypes and ranks."""
        return _kinds(self.inputs) == _kinds(other.inputs) and _kinds(self.outputs) == _kinds(other.outputs)


def derived_cases(
    loaded: LoadedProblem,
    device: str,
    policy: Policy,
    seed: int,
    *,
    most: int = MOST,
    budget_s: float = BUDGET_S,
    clock: Callable[[], float] = time.perf_counter,
) -> list[SealedCase]:
    """At most `most` cases on top of the loaded one, each answered by the reference on `device` before it counts.

    `seed` is a secret of the problem. Stops after `budget_s`. The module of `loaded` keeps its constants.
    Raises DeviceLost where the reference breaks the device on such a case: ask after everything else.
    """
    trials = _Trials(loaded, device, policy, seed)
    base = trials.facts(SealedCase("", {}))
    if base is None:
        return []
    chance = random.Random(seed)
    stop = clock() + budget_s
    found: list[SealedCase] = []

    def take(proposals: Iterator[SealedCase], wanted: int, fits: Callable[[Facts], bool]) -> None:
        for case in proposals:
            if len(found) >= wanted or clock() > stop:
                return
            facts = trials.facts(case)
            if facts is not None and facts.resembles(base) and fits(facts):
                found.append(replace(case, name=f"derived {len(found) + 1}"))

    sizes = min(SIZES, most)
    for proposals in other_constants(_constants(loaded), loaded.cases, chance):
        take(proposals, min(sizes, len(found) + 1), lambda facts: _is_other_size(facts, base))
    if not found:
        take(_resized(base, chance), sizes, lambda facts: _is_other_size(facts, base))
    others = [_broadcasts(base, chance), iter([_changed("strided")]), map(_changed, _specials())]
    for proposals in chance.sample(others, len(others)):
        take(proposals, min(most, len(found) + 1), lambda facts: facts.outputs == base.outputs)
    return found


def other_constants(
    constants: Case, cases: Mapping[str, Case], chance: random.Random
) -> Iterator[Iterator[SealedCase]]:
    """Cases that change sizes among module constants: for each of them, equal ones together, and all at once.

    `cases`: what get_cases() declares, which is no secret and left out. Equal sizes stay equal where both change.
    """
    sizes = {name: value for name, value in constants.items() if _is_size(value)}
    groups = [[name] for name in sizes]
    tied = [[name for name in sizes if sizes[name] == value] for value in {repr(v): v for v in sizes.values()}.values()]
    groups += [group for group in tied if len(group) > 1]
    groups += [list(sizes)] if len(tied) > 1 else []
    chance.shuffle(groups)
    known: list[Case] = [{**constants, **case} for case in cases.values()]
    for group in groups:
        yield _of_group({name: sizes[name] for name in group}, constants, known, chance)


def _of_group(sizes: Case, constants: Case, known: list[Case], chance: random.Random) -> Iterator[SealedCase]:
    for step in range(STEPS):
        drawn: dict[str, Any] = {}
        for value in sizes.values():
            drawn.setdefault(repr(value), _other_size(value, step, chance))
        changed = {name: drawn[repr(value)] for name, value in sizes.items()}
        if changed != sizes and {**constants, **changed} not in known:
            yield SealedCase("", changed, derived=True)


def _is_size(value: Any) -> bool:
    if type(value) in (list, tuple):
        return bool(value) and all(map(_is_size, value))
    return type(value) is int and LEAST_SIZE <= value <= MOST_SIZE


def _other_size(value: Any, step: int, chance: random.Random) -> Any:
    """Another size for one constant. Later steps keep more of what a reference may divide by."""
    if type(value) in (list, tuple):
        return [_other_size(item, step, chance) for item in value]
    if step == 0:
        return chance.choice(primes_near(value))
    if step == 1:
        return value + chance.choice((1, -1, 3))
    part = max(1, value // (8 if step == 2 else 2))  # multiples of what many references divide by
    return max(LEAST_SIZE, value + chance.choice((part, -part)))


def primes_near(size: int) -> list[int]:
    """The primes next to `size` on both sides, `size` itself left out."""
    below = next((n for n in range(size - 1, 1, -1) if _is_prime(n)), size + 1)
    above = next(n for n in range(size + 1, 2 * size + 3) if _is_prime(n))
    return [below, above]


def _is_prime(number: int) -> bool:
    return number > 1 and all(number % divisor for divisor in range(2, int(number**0.5) + 1))


def _changed(change: str) -> SealedCase:
    return SealedCase("", {}, derived=True, change=change)


def _specials() -> list[str]:
    return [f"special {size:g}" for size in SPECIAL_SIZES]


def _resized(base: Facts, chance: random.Random) -> Iterator[SealedCase]:
    """For modules that write sizes out: other sizes for one dimension of the first input."""
    _, first = base.inputs[0]
    for dim in range(len(first)):
        if first[dim] > 1:
            yield _changed(f"resized {dim} {chance.choice(primes_near(first[dim]))}")


def _broadcasts(base: Facts, chance: random.Random) -> Iterator[SealedCase]:
    """One element along a dimension of a later argument, where it has the first one's shape."""
    _, first = base.inputs[0]
    places = [
        (number, dim)
        for number, (_, shape) in list(enumerate(base.inputs))[1:]
        for dim in range(len(shape))
        if shape == first and shape[dim] > 1
    ]
    for number, dim in chance.sample(places, len(places)):
        yield _changed(f"broadcast {number} {dim}")


def _is_other_size(facts: Facts, base: Facts) -> bool:
    """Whether shapes differ that a kernel sees, without becoming much larger."""
    differs = (facts.inputs, facts.state, facts.outputs) != (base.inputs, base.state, base.outputs)
    return differs and facts.elements <= MOST_ELEMENTS * base.elements


def _constants(loaded: LoadedProblem) -> dict[str, Any]:
    return {name: value for name, value in vars(loaded.module).items() if not name.startswith("_")}


class _Trials:
    """Asks the reference under one case after another, in modules of their own."""

    def __init__(self, loaded: LoadedProblem, device: str, policy: Policy, seed: int) -> None:
        self.loaded = loaded
        self.device = device
        self.policy = policy
        self.seed = seed
        self.path = Path(str(loaded.module.__file__))

    def facts(self, case: SealedCase) -> Facts | None:
        """What the reference says under `case`; None where it has no answer to judge by."""
        try:
            with tempfile.TemporaryDirectory(dir=self.path.parent) as folder:
                return self._asked(case, folder)
        except (*REFUSALS, MemoryError, NotCarried, LoadError):
            return None
        finally:
            sys.modules[PROBLEM] = self.loaded.module

    def _asked(self, case: SealedCase, folder: str) -> Facts | None:
        source = self.path.read_text(encoding="utf-8")
        loaded = applied(load_problem(source, self.loaded.case, folder, self.loaded.whereabouts), case)
        if loaded is None:
            return None
        reference = Reference(loaded, self.device, self.policy)
        question = Questions(reference).question(FAMILIES[0], reference.first, self.seed % (1 << 31))
        if case.derived and not question.decides:
            return None
        return Facts(
            [(tensor.dtype, tuple(tensor.shape)) for tensor in packed(question.inputs)[1]],
            [(tensor.dtype, tuple(tensor.shape)) for tensor in reference.first.values()],
            [(tensor.dtype, tuple(tensor.shape)) for tensor in question.expected.same],
        )


def _kinds(shapes: Shapes) -> list[tuple[torch.dtype, int]]:
    return [(dtype, len(shape)) for dtype, shape in shapes]


def _count(shape: tuple[int, ...]) -> int:
    return int(torch.Size(shape).numel())
