"""Time on a real device: pairs of candidate and baseline side by side, fresh content each, every output checked."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import torch

from judge.bench.contact import Contact, SubjectFailed
from judge.bench.endings import Ended, of_baseline, of_candidate
from judge.bench.exchange import JITTER, Slot
from judge.bench.fitting import Fit
from judge.bench.gpu_lock import GpuLock
from judge.bench.nested import TensorMeta, encode
from judge.bench.precision import Allowed, errors
from judge.bench.reference import Reference, cloned, collect
from judge.values import Verdict

Result = TypeVar("Result")

WARM_CALLS = 3
MIN_PAIRS, MAX_PAIRS = 32, 100
ENOUGH_S = 0.5  # no further pairs after this, once there are MIN_PAIRS
AT_LEAST = 8  # pairs of a problem so slow that even MIN_PAIRS would not fit the limit
GAIN = 4.0  # a repetition may be this much further off than the rounds allowed: it is compared with same-dtype output


@dataclass
class Runner:
    """A subject in the measurement, with how its parameters map, and its samples in microseconds."""

    contact: Contact
    fit: Fit
    blame: bool  # True: its failure ends the evaluation as the candidate's
    samples_us: list[float] = field(default_factory=list)


class Measurement:
    """Times `sides` (one or two) by turns in ABBA blocks; both sides of a pair get equal content."""

    def __init__(
        self, reference: Reference, limits: list[Allowed], case: str | None, budget_s: float, rng: random.Random
    ) -> None:
        self.reference = reference
        self.limits = limits
        self.case = case
        self.budget_s = budget_s
        self.rng = rng

    def run(self, sides: list[Runner], lock: GpuLock) -> None:
        """Fill the sides' samples; `lock` is held as shared. Raises Ended, or JudgeError for a baseline."""
        for side in sides:
            self._guarded(side, self._warm)
        with lock.alone():
            started = time.monotonic()
            while not self._enough(len(sides[0].samples_us), time.monotonic() - started):
                order = sides if self.rng.random() < 0.5 else sides[::-1]
                for block in (order, order[::-1]):  # A B, then B A: drift hits both alike
                    self._pair(block)

    def _enough(self, pairs: int, elapsed_s: float) -> bool:
        if pairs >= MAX_PAIRS or (pairs >= MIN_PAIRS and elapsed_s >= ENOUGH_S):
            return True
        return pairs >= AT_LEAST and elapsed_s >= self.budget_s

    def _warm(self, side: Runner) -> None:
        """Compile, autotune, allocate: everything that happens on first calls, with the first stage's time limit."""
        side.contact.put_state(side.fit.of(self.reference.first), hook=side.fit.hook, again=False)
        for _ in range(WARM_CALLS):
            inputs = self.reference.inputs("given", secrets.randbits(62))
            self._once(side, inputs, secrets.randbits(31), None)

    def _pair(self, sides: list[Runner]) -> None:
        inputs = self.reference.inputs("given", secrets.randbits(62))
        seed = secrets.randbits(31)
        right: list[torch.Tensor] = []
        encode(self.reference.run(cloned(inputs), self.reference.first, seed), collect(right))
        for side in sides:
            side.samples_us.append(self._guarded(side, lambda s: self._once(s, inputs, seed, right)))

    def _guarded(self, side: Runner, step: Callable[[Runner], Result]) -> Result:
        try:
            return step(side)
        except SubjectFailed as failed:
            raise (of_candidate(failed, "timing") if side.blame else of_baseline(failed)) from failed

    def _once(self, side: Runner, inputs: list[Any], seed: int, right: list[torch.Tensor] | None) -> float:
        """One timed call; its output is checked when `right` is given. Microseconds."""
        tensors: list[torch.Tensor] = []
        template = encode(inputs, collect(tensors))
        metas = self._metas(inputs, seed) if right is None else [TensorMeta.of(t) for t in right]
        ins, outs = side.contact.lay_out(tensors, metas, self.rng.randrange(JITTER))
        began = time.perf_counter_ns()
        reply = side.contact.ask("timed", **_fields(template, ins, outs, seed), flush=True)
        wall_us = (time.perf_counter_ns() - began) / 1e3
        claimed_us = float(reply.get("us", 0.0))
        if side.blame and not 0.0 < claimed_us <= wall_us * 1.05 + 50.0:
            raise Ended(
                Verdict.SUSPECT,
                "timing",
                "time.mismatch",
                f"a call of {wall_us:.1f} us by the referee's clock was claimed to take {claimed_us:.1f} us",
            )
        if right is not None and side.blame:
            self._check(side, reply, outs, right)
        return claimed_us

    def _metas(self, inputs: list[Any], seed: int) -> list[TensorMeta]:
        out: list[torch.Tensor] = []
        encode(self.reference.run(cloned(inputs), self.reference.first, seed), collect(out))
        return [TensorMeta.of(tensor) for tensor in out]

    def _check(self, side: Runner, reply: dict[str, Any], outs: list[Slot], right: list[torch.Tensor]) -> None:
        metas = [(row["dtype"], tuple(row["shape"])) for row in reply.get("metas", [])]
        wanted = [(slot.meta.dtype, slot.meta.shape) for slot in outs]
        values = side.contact.take(outs)
        for number, (value, exact, limit) in enumerate(zip(values, right, self.limits, strict=True)):
            if metas != wanted or not self._close(value, exact, limit):
                raise Ended(
                    Verdict.WRONG,
                    "timing",
                    "time.wrong_output",
                    f"output {number} of a timed call is wrong although the correctness rounds passed; every timed "
                    "call gets new content at a new address",
                )

    @staticmethod
    def _close(value: torch.Tensor, exact: torch.Tensor, limit: Allowed) -> bool:
        if not value.is_floating_point() and not value.is_complex():
            return bool(torch.equal(value, exact))
        return Allowed(GAIN * limit.rms, GAIN * limit.largest).holds(errors(value, exact))


def _fields(template: Any, ins: list[Slot], outs: list[Slot], seed: int) -> dict[str, Any]:
    return {
        "args": template,
        "slots": [slot.to_json() for slot in ins],
        "out": [slot.to_json() for slot in outs],
        "seed": seed,
    }
