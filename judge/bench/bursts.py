"""The trusted clock: many calls between two stamps of the referee, every one on its own content, every output checked.

A subject's claimed times come from a process that runs foreign code. Here the referee measures the wall time of a long
and of a short burst; the difference per call cannot be less than what a call needs, wherever its work is hidden: on
another stream, in a thread, in a lazy tensor, or in a patched clock. The content is written between the stamps, into
places that were announced with other content: nothing can be computed ahead. Where launching takes longer than the
kernels, the calls are replayed from a CUDA graph. What a burst costs beside the calls (copies, gaps, dirty lines of the
L2) is read off the eager baseline, whose bursts move the same content and whose time is known.
"""

from __future__ import annotations

import random
import secrets
import statistics
import time
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.contact import Contact, SubjectFailed
from judge.bench.exchange import JITTER, Slot
from judge.bench.measured import Measurement, Runner
from judge.bench.nested import TensorMeta, encode
from judge.bench.reference import cloned, collect

LONGEST = 24  # calls in a burst
MEMORY = 2 << 30  # bytes of content that a burst may need
AIM_US = 3000.0  # device time of a long burst: far above what a stamp costs
ATTEMPTS = 30
CALM_ATTEMPTS, PAUSE_S = 6, 0.01  # later ones wait before they begin: what disturbs may pass
CPU_LONGEST, CPU_AIM_US, CPU_ATTEMPTS = 6, 2000.0, 48  # a shared processor is lost in the middle of long bursts
CPU_LEAST = 8  # attempts before a claim is believed: a short burst that lost the processor hides the long one's work
SHARE = 0.75  # a claim may be this part of the trusted time: a burst flushes no L2
SLACK_US = 5.0
SLOWEST_COPY = 1e3  # bytes per microsecond: copies cost no more than this allows, whatever the baseline's bursts say
GAP_US = 20.0  # nor do the gaps


@dataclass(frozen=True)
class Trusted:
    """Upper bound of one call's time by the referee's clock, in microseconds, and how it was read."""

    call_us: float
    method: str  # "burst" or "graph_burst"
    calls: int  # in the long burst

    def supports(self, claimed_us: float) -> bool:
        """Whether the claim is no faster than the trusted clock allows."""
        return claimed_us + SLACK_US >= SHARE * self.call_us


def trusted_time(
    measurement: Measurement, candidate: Runner, eager: Runner, rng: random.Random, *, claimed_us: float
) -> Trusted | None:
    """The candidate's time by the referee's clock. Raises SubjectFailed, and Ended for wrong outputs.

    None where it cannot be had: random outputs, numbers among the inputs, content too large for two calls.
    """
    sides = [Bursts(measurement, side, rng) for side in (candidate, eager)]
    calls = sides[0].room(claimed_us)
    if calls is None:
        return None
    for side in sides:
        side.open(calls)
    if measurement.reference.device == "cpu":
        return _supported(sides, calls, "burst", claimed_us)
    if not any(_launch_bound(side.side) for side in sides):
        return _supported(sides, calls, "burst", claimed_us)
    try:
        return _supported(sides, calls, "graph_burst", claimed_us)
    except SubjectFailed as failed:
        if failed.kind != "exception":
            raise
    return _supported(sides, calls, "burst", claimed_us)  # what one of them does cannot be captured


def _launch_bound(side: Runner) -> bool:
    """Whether calls back to back would only show the processor."""
    host = statistics.median(side.host_us) if side.host_us else 0.0
    return host > SHARE * statistics.median(side.samples_us)


def _supported(sides: list[Bursts], calls: int, method: str, claimed_us: float) -> Trusted:
    """Tries again while the claim is not supported: a busy machine makes bursts slower, never faster."""
    on_cpu = sides[0].reference.device == "cpu"
    sizes = [max(1, calls // 4), calls]
    walls: list[dict[int, list[float]]] = [{size: [] for size in sizes} for _ in sides]
    for number in range(1, 1 + (CPU_ATTEMPTS if on_cpu else ATTEMPTS)):
        if number > CALM_ATTEMPTS and not on_cpu:
            time.sleep(PAUSE_S)
        for side, seen in zip(sides, walls, strict=True):
            for size in side.rng.sample(sizes, len(sizes)):
                seen[size].append(side.burst(size, graph=method == "graph_burst"))
        mine, theirs = (_slope(seen) for seen in walls)
        beside = theirs - statistics.median(sides[1].side.samples_us)
        found = Trusted(max(mine - min(max(beside, 0.0), sides[0].dearest_us()), 0.0), method, calls)
        if found.supports(claimed_us) and (number >= CPU_LEAST or not on_cpu):
            break
    return found


def _slope(seen: dict[int, list[float]]) -> float:
    """Wall time per further call, from all bursts so far: of each size the fastest counts."""
    (short, few), (calls, many) = sorted(seen.items())
    return max((min(many) - min(few)) / (calls - short), 0.0)


class Bursts:
    """Bursts of one subject whose parameters are in place. Raises SubjectFailed, and Ended for wrong outputs."""

    def __init__(self, measurement: Measurement, side: Runner, rng: random.Random) -> None:
        self.measurement = measurement
        self.reference = measurement.reference
        self.side = side
        self.rng = rng
        self.contact: Contact = side.contact
        self._metas: list[TensorMeta] = []

    def room(self, claimed_us: float) -> int | None:
        """Calls in a long burst, or None where no burst can be."""
        inputs, right, _ = self._content()
        again: list[torch.Tensor] = []
        encode(self.reference.run(cloned(inputs), self.reference.first, secrets.randbits(31)), collect(again))
        if any(not torch.equal(a, b) for a, b in zip(right, again, strict=True) if not a.isnan().any()):
            return None
        if encode(inputs, collect([])) != encode(self._content()[0], collect([])):
            return None  # numbers beside the tensors change from draw to draw: calls cannot be announced
        self._metas = [TensorMeta.of(tensor) for tensor in (*_tensors(inputs), *right)]
        fits = MEMORY // max(1, sum(meta.nbytes for meta in self._metas))
        on_cpu = self.reference.device == "cpu"
        wanted = min(CPU_LONGEST, CPU_AIM_US / claimed_us) if on_cpu else min(LONGEST, max(8, AIM_US / claimed_us))
        calls = int(min(fits, max(2, wanted)))
        return calls if calls >= 2 else None

    def open(self, calls: int) -> None:
        """Share memory for that many calls."""
        inputs, right, _ = self._content()
        self._metas = [TensorMeta.of(tensor) for tensor in (*_tensors(inputs), *right)]
        self.contact.make_arena(self._metas * calls, [])

    def dearest_us(self) -> float:
        """What a burst may cost per call beside the call, at most."""
        return GAP_US + sum(meta.nbytes for meta in self._metas) / SLOWEST_COPY

    def burst(self, calls: int, *, graph: bool) -> float:
        """Wall time in microseconds of one burst."""
        slots = self._lay(calls)  # other content: what is computed from it ahead of time is wrong
        if graph:
            self.contact.ask("burst_capture")
        contents = [self._content() for _ in range(calls)]
        given = [tensor for inputs, _, _ in contents for tensor in _tensors(inputs)]
        ins = [self.contact.arena.view(slot) for mine, _ in slots for slot in mine]
        self._settle()
        began = time.perf_counter_ns()
        for place, tensor in zip(ins, given, strict=True):
            place.copy_(tensor)
        self._settle()
        self.contact.ask("burst")
        wall_us = (time.perf_counter_ns() - began) / 1e3
        if self.side.blame:
            for (_, outs), (_, right, _) in zip(slots, contents, strict=True):
                self.measurement.check_values(self.side, outs, right)
        return wall_us

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

    def _settle(self) -> None:
        if self.reference.device != "cpu":
            torch.cuda.synchronize()


def _tensors(inputs: list[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    encode(inputs, collect(found))
    return found
