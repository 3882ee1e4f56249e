"""The trusted clock: many calls between two stamps of the referee, every one on its own content, every output checked.

A subject's claimed times come from a process that runs foreign code. Here the referee measures the wall time of a long
and of a short burst; the difference per call cannot be less than what a call needs, wherever its work is hidden: on
another stream, in a thread, in a lazy tensor, or in a patched clock. The content is written between the stamps, into
places that were announced with other content: nothing can be computed ahead. Where launching takes longer than the
kernels, the calls are replayed from a CUDA graph.
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
CPU_LEAST = 4  # attempts before a claim is believed: a short burst that lost the processor hides the long one's work
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

        None where it cannot be had: random outputs, numbers among the inputs, content too large for two calls.
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
        """Tries again while the claim is not supported: a busy machine makes bursts slower, never faster."""
        on_cpu = self.reference.device == "cpu"
        seen: dict[int, list[tuple[float, float]]] = {max(1, calls // 4): [], calls: []}
        for number in range(1, 1 + (CPU_ATTEMPTS if on_cpu else ATTEMPTS)):
            for size in self.rng.sample(list(seen) * REPEATS, len(seen) * REPEATS):
                seen[size].append(self._burst(size, graph=method == "graph_burst"))
            found = Trusted(_slope(seen), method, calls)
            if found.supports(claimed_us) and (number >= CPU_LEAST or not on_cpu):
                break
        return found

    def _prepare(self, claimed_us: float) -> int | None:
        inputs, right, _ = self._content()
        again: list[torch.Tensor] = []
        encode(self.reference.run(cloned(inputs), self.reference.first, secrets.randbits(31)), collect(again))
        if any(not torch.equal(a, b) for a, b in zip(right, again, strict=True) if not a.isnan().any()):
            return None
        if encode(inputs, collect([])) != encode(self._content()[0], collect([])):
            return None  # numbers beside the tensors change from draw to draw: calls cannot be announced
        metas = [TensorMeta.of(tensor) for tensor in (*_tensors(inputs), *right)]
        fits = MEMORY // max(1, sum(meta.nbytes for meta in metas))
        longest = CPU_LONGEST if self.reference.device == "cpu" else LONGEST
        calls = int(min(longest, fits, max(8, AIM_US / max(claimed_us, 1.0))))
        if calls < 2:
            return None
        self.contact.make_arena(metas * calls, [])
        return calls

    def _burst(self, calls: int, *, graph: bool) -> tuple[float, float]:
        """Wall time in microseconds of one burst; and of copying as many inputs and outputs, done here."""
        slots = self._lay(calls)  # other content: what is computed from it ahead of time is wrong
        if graph:
            self.contact.ask("burst_capture")
        contents = [self._content() for _ in range(calls)]
        given = [_tensors(inputs) for inputs, _, _ in contents]
        arena = self.contact.arena
        ins = [arena.view(slot) for mine, _ in slots for slot in mine]
        places = list(zip(ins, [tensor for row in given for tensor in row], strict=True))
        self._settle()
        began = time.perf_counter_ns()
        for place, tensor in places:
            place.copy_(tensor)
        self._settle()
        self.contact.ask("burst")
        wall_us = (time.perf_counter_ns() - began) / 1e3
        for (_, outs), (_, right, _) in zip(slots, contents, strict=True):
            self.measurement.check_values(self.side, outs, right)
        return wall_us, self._copying([tensor for _, tensor in places], [t for _, right, _ in contents for t in right])

    def _lay(self, calls: int) -> list[tuple[list[Slot], list[Slot]]]:
        """Announce `calls` calls on fresh content. Returns the slots of their inputs and outputs."""
        contents = [self._content() for _ in range(calls)]
        given = [_tensors(inputs) for inputs, _, _ in contents]
        metas = [TensorMeta.of(tensor) for _, right, _ in contents for tensor in right]
        ins, outs = self.contact.lay_out([t for row in given for t in row], metas, self.rng.randrange(JITTER))
        found, commands = [], []
        for row, (inputs, right, seed) in zip(given, contents, strict=True):
            mine, ins = ins[: len(row)], ins[len(row) :]
            theirs, outs = outs[: len(right)], outs[len(right) :]
            slots = {"slots": [slot.to_json() for slot in mine], "out": [slot.to_json() for slot in theirs]}
            commands.append({"args": encode(inputs, collect([])), **slots, "seed": seed})
            found.append((mine, theirs))
        self.contact.ask("burst_ready", calls=commands)
        return found

    def _content(self) -> tuple[list[Any], list[torch.Tensor], int]:
        inputs = self.reference.inputs("given", secrets.randbits(62))
        seed = secrets.randbits(31)
        right: list[torch.Tensor] = []
        encode(self.reference.run(cloned(inputs), self.reference.first, seed), collect(right))
        return inputs, right, seed

    def _copying(self, inputs: list[torch.Tensor], outputs: list[torch.Tensor]) -> float:
        """Wall time in microseconds of copying as much as a burst does, inputs by us and outputs by the subject."""
        where = self.contact.arena.memory.device
        total = 0
        for tensors in (inputs, outputs):
            targets = [torch.empty_like(tensor, device=where) for tensor in tensors]
            self._settle()
            began = time.perf_counter_ns()
            for tensor, target in zip(tensors, targets, strict=True):
                target.copy_(tensor)
            self._settle()
            total += time.perf_counter_ns() - began
        return total / 1e3

    def _settle(self) -> None:
        if self.reference.device != "cpu":
            torch.cuda.synchronize()


def _tensors(inputs: list[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    encode(inputs, collect(found))
    return found


def _slope(seen: dict[int, list[tuple[float, float]]]) -> float:
    """Wall time per further call, copies taken off, from all bursts so far: of each size the fastest counts."""
    (short, few), (calls, many) = sorted(seen.items())
    gross, copying = (
        (min(row[part] for row in many) - min(row[part] for row in few)) / (calls - short) for part in (0, 1)
    )
    return max(gross - max(copying, 0.0), 0.0)
