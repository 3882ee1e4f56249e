"""Time on a real device: subjects side by side in blocks, fresh content each, every output checked."""

from __future__ import annotations

import random
import secrets
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from judge.bench.device.clocks import SmClock, quiet_and_alone
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.device.statistics import kept_blocks
from judge.bench.exchange.arenas import JITTER, Slot
from judge.bench.exchange.claims import Timed
from judge.bench.exchange.contact import Contact, SubjectFailed
from judge.bench.exchange.nested import TensorMeta, packed
from judge.bench.judging.asking import Question, call
from judge.bench.judging.comparison import check_kept
from judge.bench.judging.completion import Ended, of_subject
from judge.bench.judging.families import FAMILIES
from judge.bench.judging.parameters import Binding
from judge.bench.judging.precision import Allowed
from judge.bench.judging.reference import Reference
from judge.bench.judging.slices import answered
from judge.bench.judging.stochastic import ByChance, eligible
from judge.bench.processes.placing import Placed
from judge.bench.timing.circumstances import Circumstances
from judge.bench.timing.enough import why_enough
from judge.bench.timing.fresh_draws import CALIBRATED, CALIBRATING, FreshDraws
from judge.bench.timing.undisturbed import Undisturbed
from judge.values import Verdict

Result = TypeVar("Result")
Pair = tuple[list[Any], int, list[torch.Tensor]]  # inputs, seed, what the reference answers
Placing = Callable[[Sequence[str]], AbstractContextManager[Placed]]

WARM_CALLS = 3
LAUNCH_BOUND = 0.75  # of a call's time on the device, if launching it takes longer than that
LONG_LAUNCH_US = 500.0  # launching that no caller hides behind other work; one launch takes up to 250
SCOUTED = 4  # pairs after which it is known whether launching is what takes the time
SETTLING = 8  # calls of every side that do not count, on the processors and by the clock of those that do
LEAST_US = 1e-3  # no clock tells less; a smaller claim would overflow ratios
GIVEN = FAMILIES[0]
ASKED_AGAIN = 4  # one in so many rounds repeats a content, where outputs are drawn
TAKEN_BYTES = 256 << 20  # of answers that are checked when others may have the GPU again
AHEAD, AHEAD_BYTES = 16, 256 << 20  # pairs whose content is drawn before the GPU is held for them, and its size
GAIN = 4.0  # a repetition may be this much further off than the rounds allowed: it is compared with same-dtype output


@dataclass(frozen=True)
class Drawn:
    """A second draw of the reference for one content; None where answers need none. `again`: it was asked before."""

    other: list[torch.Tensor] | None = None
    again: bool = False


NOT_DRAWN = Drawn()


@dataclass
class Runner:
    """A subject in the measurement, with how its parameters map, and its samples in microseconds."""

    contact: Contact
    fit: Binding
    blame: bool  # True: its failure ends the evaluation as the candidate's
    samples_us: list[float] = field(default_factory=list)
    host_us: list[float] = field(default_factory=list)
    wall_us: list[float] = field(default_factory=list)  # from asking to the answer, by the referee's clock
    limits: list[Allowed] | None = None  # of a baseline that may be wrong: what its outputs may be off by

    @property
    def launch_us(self) -> float:
        """What launching a call takes, by its own word, as far as the referee waited so long."""
        return statistics.median(self.host_us) if self.host_us else 0.0

    @property
    def launch_bound(self) -> bool:
        """Whether launching a call takes about as long as the call or longer."""
        return self.launch_us > LAUNCH_BOUND * statistics.median(self.samples_us)


class Measurement:
    """Times sides by turns: a block takes them in random order, then in the opposite one, with equal content.

    Outputs that are `drawn` at random are compared with draws of the reference for the same content; one content is
    asked again and again where the candidate draws its own numbers.
    """

    family = GIVEN  # of inputs
    lean = False  # memory is short
    spares = False  # a child keeps no memory from one timed call to the next: the other one needs it
    drawn: frozenset[int] = frozenset()
    part = gate = False  # see why_enough
    screening = False  # whoever may beat the best so far is measured again, beside it
    by_chance = False  # the candidate draws other numbers than the reference does from the same seed
    _draws: dict[int, FreshDraws] | None = None
    _again: list[Any] | None = None  # the content that is asked again
    _rounds = 0
    _layout: list[TensorMeta] | None = None
    placing: Placing = staticmethod(lambda names: nullcontext(Placed()))  # puts sides on the processors for timing

    gaps = False  # between launches count: time is the caller's, since calls wait for their launches
    _scouts = _began = False  # whether this run still asks that, and whether it began to count them

    def __init__(
        self,
        reference: Reference,
        limits: list[Allowed],
        case: str | None,
        budget_s: float,
        rng: random.Random,
        beat: float | None = None,
    ) -> None:
        """`beat`: the speedup over eager of the best so far; what is slower for sure need not be known as closely."""
        self.beat = beat
        self.reference = reference
        self.state = reference.first
        self.limits = limits
        self.case = case
        self.budget_s = budget_s
        self.rng = rng
        self.clock = SmClock(reference.device)
        self.ahead: list[Any] = []  # content of bursts that was drawn before it is needed
        self._pairs: list[Pair] = []  # the same of pairs
        self._taken: list[tuple[Runner, list[torch.Tensor], list[torch.Tensor], Drawn]] = []  # not checked yet
        self._taken_bytes = 0

    @classmethod
    def of(
        cls, reference: Reference, first: Question, case: str | None, budget_s: float, rng: random.Random,
        beat: float | None,
    ) -> Measurement:  # fmt: skip
        """On contents like those of `first`, whose parameters and limits count."""
        expected = first.expected
        found = cls(reference, expected.allowed, case, budget_s, rng, beat)
        found.family, found.state = first.family, first.state
        if reference.lean:
            found.lean, found._layout = True, expected.metas
        found.by_chance = any(isinstance(limit, ByChance) for limit in expected.allowed)
        found.drawn = frozenset(number for number in expected.random if eligible(expected, number))
        return found

    @property
    def told(self) -> bool:
        """Whether what the candidate drew in timed calls could be checked."""
        return not self.by_chance or all(draws.told for draws in self.draws().values())

    def contents(self) -> list[Any]:
        """Fresh inputs."""
        return self.reference.inputs(self.family, secrets.randbits(62))

    def outputs(self, inputs: list[Any], seed: int) -> list[torch.Tensor]:
        """What the reference answers, with the parameters that all sides have."""
        if self.lean:
            return answered(self.reference, inputs, seed, self.state)
        return self.reference.outputs(inputs, seed, self.state)

    def draws(self) -> dict[int, FreshDraws]:
        """What the candidate drew so far, by number of the output."""
        if self._draws is None:
            self._again = self.contents()
            drawn: dict[int, list[torch.Tensor]] = {number: [] for number in self.drawn}
            for _ in range(CALIBRATING):
                answer = self.outputs(self._again, secrets.randbits(31))
                for number, row in drawn.items():
                    row.append(answer[number].reshape(-1)[:CALIBRATED].clone())
            self._draws = {number: FreshDraws(row) for number, row in drawn.items()}
        return self._draws

    def check_draws(self) -> None:
        """Raise Ended for a candidate whose draws, all calls together, are none for their contents."""
        for number, draws in (self._draws or {}).items():
            text = draws.verdict()
            if text:
                raise _wrong_output(self.reference.gradients.title(number), f"over {draws.calls} calls: {text}")

    def run(self, sides: list[Runner], lock: GpuLock, *, rival: Runner | None = None) -> Circumstances:
        """Fill the sides' samples; the first side is the one in question, `rival` the one it must beat, if any.

        `lock` is held as shared. Raises Ended, JudgeError for a baseline, SubjectFailed for the best so far.
        """
        self.spares = self.lean and self.reference.by_turns([side.contact.peak_bytes for side in sides])
        self.warm(sides)
        self._draw_ahead(lock)
        seen = Circumstances()
        names, at = [side.contact.name for side in sides], (lock, self.reference.device)
        with quiet_and_alone(*at) as waited_s, self.placing(names) as placed, Undisturbed(*at) as off:
            seen.cores, seen.waited_s = placed.where, waited_s
            if len(sides) == 1:  # nothing is measured beside it that would be disturbed, too
                off.keep()
            self._settle(sides, off)
            started = time.monotonic()
            self._scouts, self._began = not self.gaps, False
            while not (stopped := self._enough(sides, rival, time.monotonic() - started)) or self._in_vain(sides):
                if not stopped:
                    order = self.rng.sample(sides, len(sides))
                    for block in (order, order[::-1]):  # A B, then B A: drift hits both alike
                        self._together(block)
                    seen.clocks_mhz.append(self.clock.mhz())
                    seen.throttled |= self.clock.throttle_reasons()
                if stopped or self._begins_to_count_gaps(sides, off) or off.disturbed():
                    _forget(sides)
                    seen.clocks_mhz.clear()
                    started = time.monotonic()
        seen.stopped, seen.gaps = stopped, self.gaps
        self.check_taken()
        _drop(sides, seen)
        return seen

    def _begins_to_count_gaps(self, sides: list[Runner], off: Undisturbed) -> bool:
        """Whether the sides are measured anew, since one of them waits for its launches: both by the same clock."""
        if not self._scouts or self.reference.device == "cpu" or len(sides[0].samples_us) != SCOUTED:
            return False
        self._scouts = False
        self.gaps = self._began = any(side.launch_bound and side.launch_us > LONG_LAUNCH_US for side in sides)
        self._settle(sides, off)
        return self.gaps

    def _in_vain(self, sides: list[Runner]) -> bool:
        """Whether nobody's calls take as long as launching one of them was said to, which would choose the clock; then
        all are measured anew without gaps."""
        if not self._began or any(statistics.median(side.samples_us) > LONG_LAUNCH_US / 2 for side in sides):
            return False
        self.gaps = self._began = False
        return True

    def _settle(self, sides: list[Runner], off: Undisturbed) -> None:
        """Where gaps count, every side comes to its pairs with the same calls behind it, and no context is made."""
        if not self.gaps:
            return
        off.keep()
        for _ in range(SETTLING // 2):
            for block in (sides, sides[::-1]):
                self._together(block)
        _forget(sides)

    def _enough(self, sides: list[Runner], rival: Runner | None, elapsed_s: float) -> str:
        """Why no more pairs are taken; empty while they are."""
        return why_enough(
            sides[0].samples_us,
            sides[1].samples_us if len(sides) > 1 else None,
            None if rival is None else rival.samples_us,
            beat=self.beat,
            elapsed_s=elapsed_s,
            budget_s=self.budget_s,
            screening=self.screening and not (self.gaps and self.beat is None),
            part=self.part,
            gate=self.gate,
        )

    def _draw_ahead(self, lock: GpuLock) -> None:
        """Content for the first pairs, while others may have the GPU, too."""
        if self.lean or self.by_chance:
            return
        drawn = 0
        while len(self._pairs) < AHEAD and drawn <= AHEAD_BYTES:
            lock.let_pass()
            inputs, seed, right = self.pair()
            self._pairs.append((inputs, seed, right))
            drawn += nbytes(inputs, right)

    def pair(self) -> Pair:
        """Fresh content, and what the reference answers to it from a seed."""
        inputs, seed = self.contents(), secrets.randbits(31)
        return inputs, seed, self.outputs(inputs, seed)

    def warm(self, sides: list[Runner]) -> None:
        """Have all of them do what only first calls do. Raises as `run` does."""
        for side in sides:
            self._guarded(side, self._warm)

    def _warm(self, side: Runner) -> None:
        """Compile, autotune, allocate: everything that happens on first calls, with the first stage's time limit."""
        if side.contact.warm and side.contact.held is self.state:
            return
        side.fit.give(side.contact, self.state, again=side.contact.warm)
        if side.contact.warm:
            return
        for _ in range(WARM_CALLS):
            self._once(side, self.contents(), secrets.randbits(31), None)
        side.contact.warm = True

    def _together(self, sides: list[Runner]) -> None:
        chance = self.by_chance and any(side.blame for side in sides)
        again = chance and bool(self.draws()) and self._rounds % ASKED_AGAIN == 0
        self._rounds += 1
        if again and self._again is not None:
            inputs, seed = self._again, secrets.randbits(31)
            right = self.outputs(inputs, seed)
        else:
            inputs, seed, right = self._pairs.pop() if self._pairs else self.pair()
        other = self.outputs(inputs, secrets.randbits(31)) if chance else None
        drawn = Drawn(other, again=again)
        for side in sides:
            claimed_us, host_us, wall_us = self._guarded(side, lambda s: self._once(s, inputs, seed, right, drawn))
            side.samples_us.append(claimed_us)
            side.host_us.append(host_us)
            side.wall_us.append(wall_us)

    def _guarded(self, side: Runner, step: Callable[[Runner], Result]) -> Result:
        try:
            return step(side)
        except SubjectFailed as failed:
            raise of_subject(failed, "timing") from failed

    def _once(
        self, side: Runner, inputs: list[Any], seed: int, right: list[torch.Tensor] | None, drawn: Drawn = NOT_DRAWN
    ) -> tuple[float, float, float]:
        """One timed call, compared with `right` if that is given. Microseconds on the device, to launch, in all."""
        template, tensors = packed(inputs)
        metas = self._metas(inputs, seed, right)
        ins, outs = side.contact.lay_out(tensors, metas, self.rng.randrange(JITTER))
        began = time.perf_counter_ns()
        asked = call(template, ins, outs, seed)
        reply = side.contact.ask(Timed, **asked, flush=True, spare=self.spares, gaps=self.gaps)
        wall_us = (time.perf_counter_ns() - began) / 1e3
        if not LEAST_US <= reply.us <= wall_us * 1.05 + 50.0:
            text = f"a call of {wall_us:.1f} µs by the referee's clock was claimed to take {reply.us:.1f} µs"
            if not side.blame:
                raise SubjectFailed(side.contact.name, "garbage", Timed.op, text)
            raise Ended(Verdict.SUSPECT, "timing", "time.mismatch", text)
        if side.blame:
            check_kept(reply, self.reference.kept, "timing")
        if right is not None and (side.blame or side.limits is not None):
            self.check(side, reply, outs, right, drawn)
        return reply.us, min(reply.host_us, wall_us), wall_us  # no launch takes longer than all that we waited

    def _metas(self, inputs: list[Any], seed: int, right: list[torch.Tensor] | None) -> list[TensorMeta]:
        """Layouts of the outputs. A call that is not compared gets those seen last: no reference has to run for it."""
        if right is not None or self._layout is None:
            right = self.outputs(inputs, seed) if right is None else right
            self._layout = list(map(TensorMeta.of, right))
        return self._layout

    def check(
        self, side: Runner, reply: Timed, outs: list[Slot], right: list[torch.Tensor], drawn: Drawn = NOT_DRAWN
    ) -> None:
        """Raise Ended unless the slots hold what the reference gave; the values may be compared by `check_taken` only,
        when others may have the GPU again."""
        metas = [(meta.dtype, meta.shape) for meta in reply.metas]
        wanted = [(slot.meta.dtype, slot.meta.shape) for slot in outs]
        if metas == wanted and not (self.lean or self.by_chance or side.limits is not None):
            self.check_later(side, outs, right, drawn)
        else:
            self.check_values(side, outs, right, drawn, described=metas == wanted)

    def check_values(
        self,
        side: Runner,
        outs: list[Slot],
        right: list[torch.Tensor],
        drawn: Drawn = NOT_DRAWN,
        *,
        described: bool = True,
    ) -> None:
        """Raise Ended unless the slots hold what is right: `right`, or another draw beside `drawn`."""
        self._check_taken(side, side.contact.take(outs), right, drawn, described=described)

    def check_later(self, side: Runner, outs: list[Slot], right: list[torch.Tensor], drawn: Drawn) -> None:
        """Take what the slots hold for `check_taken`; at once where that is much. Raises Ended."""
        values = side.contact.take(outs)
        self._taken.append((side, values, right, drawn))
        self._taken_bytes += sum(tensor.nbytes for tensor in (*values, *right))
        if self._taken_bytes > TAKEN_BYTES:
            self.check_taken()

    def check_taken(self) -> None:
        """Raise Ended unless everything that was taken is right, and so are all draws together."""
        taken, self._taken, self._taken_bytes = self._taken, [], 0
        for side, values, right, drawn in taken:
            self._check_taken(side, values, right, drawn)
        self.check_draws()

    def _check_taken(
        self,
        side: Runner,
        values: list[torch.Tensor],
        right: list[torch.Tensor],
        drawn: Drawn,
        *,
        described: bool = True,
    ) -> None:
        limits = self.limits if side.limits is None else side.limits
        for number, (value, exact, limit) in enumerate(zip(values, right, limits, strict=True)):
            other = drawn.other[number] if drawn.other is not None and number in self.drawn else None
            limit = limit if other is None or not side.blame else ByChance()
            if not described or not limit.accepts(value, exact, GAIN):
                if side.limits is not None:
                    text = f"{self.reference.gradients.title(number)} is off by more than its numerics allow"
                    raise SubjectFailed(side.contact.name, "wrong", "timed", text)
                raise _wrong_output(
                    self.reference.gradients.title(number), "every timed call gets new content at a new address"
                )
            if other is not None and side.blame:
                text = self.draws()[number].fault(value, exact, other, again=drawn.again)
                if text:
                    raise _wrong_output(self.reference.gradients.title(number), text)


def nbytes(inputs: Any, right: Sequence[torch.Tensor]) -> int:
    """Of all tensors among the inputs and of the answers."""
    return sum(tensor.nbytes for tensor in (*packed(inputs)[1], *right))


def _wrong_output(title: str, text: str) -> Ended:
    message = f"{title} of a timed call is wrong although the correctness rounds passed; {text}"
    return Ended(Verdict.WRONG, "timing", "time.wrong_output", message)


def _forget(sides: list[Runner]) -> None:
    for side in sides:
        for samples in (side.samples_us, side.host_us, side.wall_us):
            samples.clear()


def _drop(sides: list[Runner], seen: Circumstances) -> None:
    """Leave out what was measured at another clock; a block holds two samples of every side."""
    kept = kept_blocks(seen.clocks_mhz)
    seen.dropped = 2 * (len(seen.clocks_mhz) - len(kept))
    for side in sides:
        side.samples_us[:] = [side.samples_us[i] for n in kept for i in (2 * n, 2 * n + 1)]
        side.host_us[:] = [side.host_us[i] for n in kept for i in (2 * n, 2 * n + 1)]
