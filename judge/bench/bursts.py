"""The trusted clock: many calls between two stamps of the referee, every one on its own content, every output checked.

A subject's claimed times come from a process that runs foreign code. Here the referee measures the wall time of a long
and of a short burst; the difference per call cannot be less than what a call needs, wherever its work is hidden: on
another stream, in a thread, in a lazy tensor, or in a patched clock. Where launching takes longer than the kernels, the
calls are replayed from a CUDA graph that was captured on other content.
"""

from __future__ import annotations

import random
import secrets
import time
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.contact import Contact, SubjectFailed
from judge.bench.exchange import JITTER, Slot
from judge.bench.measured import Measurement, Runner
from judge.bench.nested import TensorMeta, encode
from judge.bench.reference import cloned, collect

LONGEST = 48  # calls in a burst
MEMORY = 2 << 30  # bytes of content that a burst may need
AIM_US = 3000.0  # device time of a long burst: far above what a stamp costs
REPEATS, ATTEMPTS = 2, 4
CPU_LONGEST, CPU_ATTEMPTS = 6, 16  # a processor is shared: a long burst would lose it in the middle
SHARE = 0.75  # a claim may be this part of the trusted time: a burst flushes no L2, but copies its outputs
SLACK_US = 5.0


@dataclass(frozen=True)
class Trusted:
    """Upper bound of one call's time by the referee's clock, in microseconds, and how it was read."""

    call_us: float
    method: str  # "burst" or "graph_burst"
    calls: int  # in the long burst

    def supports(self, claimed_us: float) -> bool:
        """Whether the claim is no faster than the trusted clock allows."""
        return claimed_us + SLACK_US >= SHARE * self.call_us


class Bursts:
    """Bursts of one subject whose parameters are in place. Raises SubjectFailed, and Ended for wrong outputs."""

    def __init__(self, measurement: Measurement, side: Runner, rng: random.Random) -> None:
        self.measurement = measurement
        self.reference = measurement.reference
        self.side = side
        self.rng = rng
        self.contact: Contact = side.contact

    def measure(self, claimed_us: float, *, launch_bound: bool) -> Trusted | None:
        """The trusted time. With `launch_bound`, calls back to back would only show the processor.

        None where it cannot be had: random outputs, or content too large for two calls.
        """
        calls = self._prepare(claimed_us)
        if calls is None:
            return None
        if self.reference.device == "cpu":
            return self._supported(claimed_us, calls, "burst")
        if not launch_bound:
            plain = self._supported(claimed_us, calls, "burst")
            if plain.supports(claimed_us):
                return plain
        try:
            return self._supported(claimed_us, calls, "graph_burst")
        except SubjectFailed as failed:
            if failed.kind != "exception":
                raise
        return self._supported(claimed_us, calls, "burst")  # what the candidate does cannot be captured

    def _supported(self, claimed_us: float, calls: int, method: str) -> Trusted:
        """Tries again while the claim is not supported: a busy machine only ever makes a call look slower."""
        best = Trusted(float("inf"), method, calls)
        for _ in range(CPU_ATTEMPTS if self.reference.device == "cpu" else ATTEMPTS):
            found = Trusted(self._slope(calls, graph=method == "graph_burst"), method, calls)
            best = min(best, found, key=lambda trusted: trusted.call_us)
            if best.supports(claimed_us):
                break
        return best

    def _prepare(self, claimed_us: float) -> int | None:
        inputs, right, _ = self._content()
        again: list[torch.Tensor] = []
        encode(self.reference.run(cloned(inputs), self.reference.first, secrets.randbits(31)), collect(again))
        if any(not torch.equal(a, b) for a, b in zip(right, again, strict=True) if not a.isnan().any()):
            return None
        tensors: list[torch.Tensor] = []
        encode(inputs, collect(tensors))
        metas = [TensorMeta.of(tensor) for tensor in (*tensors, *right)]
        fits = MEMORY // max(1, sum(meta.nbytes for meta in metas))
        longest = CPU_LONGEST if self.reference.device == "cpu" else LONGEST
        calls = int(min(longest, fits, max(8, AIM_US / max(claimed_us, 1.0))))
        if calls < 2:
            return None
        self.contact.make_arena(metas * calls, [])
        return calls

    def _slope(self, calls: int, *, graph: bool) -> float:
        """Wall time per further call: of a long burst less a short one, the copies of the outputs taken off."""
        short = max(1, calls // 4)
        walls: dict[int, list[float]] = {short: [], calls: []}
        copies: dict[int, list[float]] = {short: [], calls: []}
        for _ in range(REPEATS):
            for size in self.rng.sample([short, calls], 2):
                wall_us, copy_us = self._burst(size, graph=graph)
                walls[size].append(wall_us)
                copies[size].append(copy_us)
        gross, copying = ((min(times[calls]) - min(times[short])) / (calls - short) for times in (walls, copies))
        return max(gross - max(copying, 0.0), 0.0)

    def _burst(self, calls: int, *, graph: bool) -> tuple[float, float]:
        """Wall time in microseconds of one burst; and of copying as many outputs, done here."""
        if graph:  # capture on content that is replaced before the replay
            self._lay(calls)
            self.contact.ask("burst_capture")
        rights = self._lay(calls, again=graph)
        began = time.perf_counter_ns()
        self.contact.ask("burst")
        wall_us = (time.perf_counter_ns() - began) / 1e3
        for outs, right in rights:
            self.measurement.check_values(self.side, outs, right)
        return wall_us, self._copying([tensor for _, right in rights for tensor in right])

    def _lay(self, calls: int, *, again: bool = False) -> list[tuple[list[Slot], list[torch.Tensor]]]:
        """Fresh content for every call; `again` keeps the places of the last time. Returns slots and right outputs."""
        contents = [self._content() for _ in range(calls)]
        tensors: list[torch.Tensor] = []
        metas: list[TensorMeta] = []
        shapes: list[tuple[Any, int, int]] = []
        for inputs, right, _ in contents:
            mine: list[torch.Tensor] = []
            shapes.append((encode(inputs, collect(mine)), len(mine), len(right)))
            tensors += mine
            metas += [TensorMeta.of(tensor) for tensor in right]
        if not again:
            self._jitter = self.rng.randrange(JITTER)
        ins, outs = self.contact.lay_out(tensors, metas, self._jitter)
        found, commands = [], []
        for (template, n_in, n_out), (_, right, seed) in zip(shapes, contents, strict=True):
            given, ins = ins[:n_in], ins[n_in:]
            theirs, outs = outs[:n_out], outs[n_out:]
            slots = {"slots": [slot.to_json() for slot in given], "out": [slot.to_json() for slot in theirs]}
            commands.append({"args": template, **slots, "seed": seed})
            found.append((theirs, right))
        if not again:
            self.contact.ask("burst_ready", calls=commands)
        return found

    def _content(self) -> tuple[list[Any], list[torch.Tensor], int]:
        inputs = self.reference.inputs("given", secrets.randbits(62))
        seed = secrets.randbits(31)
        right: list[torch.Tensor] = []
        encode(self.reference.run(cloned(inputs), self.reference.first, seed), collect(right))
        return inputs, right, seed

    def _copying(self, tensors: list[torch.Tensor]) -> float:
        """Wall time of copying `tensors` to other places, in microseconds: the subject copies as many."""
        targets = [torch.empty_like(tensor) for tensor in tensors]
        self._settle()
        began = time.perf_counter_ns()
        for tensor, target in zip(tensors, targets, strict=True):
            target.copy_(tensor)
        self._settle()
        return (time.perf_counter_ns() - began) / 1e3

    def _settle(self) -> None:
        if self.reference.device != "cpu":
            torch.cuda.synchronize()

    _jitter = 0
