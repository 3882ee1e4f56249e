"""The trusted clock: many calls between two stamps of the referee, every one on its own content, every output checked.

A subject's claimed times come from a process that runs foreign code. Here the referee measures the wall time of a long
and of a short burst; the difference per call cannot be less than what a call needs, wherever its work is hidden: on
another stream, in a thread, in a lazy tensor, or in a patched clock. The content is written between the stamps, into
places that were announced with other content: nothing can be computed ahead. Where launching takes longer than the
kernels, the calls are replayed from a CUDA graph. What a burst costs beside the calls (copies, gaps, dirty lines of the
L2) is read off the eager baseline, whose bursts move the same content and whose time is known.
"""

from __future__ import annotations

import math
import random
import secrets
import statistics
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.device.clocks import is_quiet, wait_until_quiet
from judge.bench.device.gpu import free_bytes
from judge.bench.exchange.arenas import JITTER, Slot
from judge.bench.exchange.claims import BurstCaptured, BurstDone, BurstReady
from judge.bench.exchange.contact import Contact, SubjectFailed
from judge.bench.exchange.nested import TensorMeta, packed
from judge.bench.judging.asking import call
from judge.bench.timing.measured import AHEAD_BYTES, Drawn, Measurement, Runner, nbytes
from judge.bench.timing.trusted import CPU, GPU, PASSES, Terms, Trusted, terms_of
from judge.values import JudgeError

Content = tuple[list[Any], list[torch.Tensor], int, Drawn]  # inputs, what the reference answers, seed, another draw
NOISY_S = 10.0  # that are waited for quiet between the attempts
CALM_ATTEMPTS, PAUSE_S = 6, 0.01  # later ones wait before they begin: what disturbs may pass
HOPELESS, WIDE = 10, 2.0  # attempts after which a claim that is off by this factor gets no more of them
COPIES_VARY, COPIES_VARY_US = 1.02, 5.0
COPIES = 8  # of a burst's content that are there at a time, over both sides and what they keep, at most
FEW = 4  # calls in a burst: where others leave no room for them, a longer one would tell more
AMPLE_BYTES, AMPLE = 1 << 30, 32  # drawn ahead in place of AHEAD_BYTES where that is so small a part of what is free
COPIED_BYTES = 256 << 20  # of content where it has to go through the host


def trusted_time(
    measurement: Measurement, candidate: Runner, eager: Runner, rng: random.Random, *, claimed_us: float
) -> Trusted | None:
    """The candidate's time by the referee's clock. Raises SubjectFailed, and Ended for wrong outputs.

    None where it cannot be had: whole numbers drawn at random, numbers among the inputs, content too large for two
    calls.
    """
    terms = terms_of(measurement.reference.device)
    sides = [Bursts(measurement, side, rng, terms) for side in (candidate, eager)]
    calls = sides[0].room(claimed_us)
    if calls is None:
        return None
    _open(sides, calls)
    return _read(measurement, sides, calls, claimed_us, terms)


def draw_ahead(measurement: Measurement, claimed_us: float) -> None:
    """Draw content for bursts of such a call, as far as AHEAD_BYTES, while others may have the GPU, too."""
    terms = CPU if measurement.reference.device == "cpu" else GPU
    calls = _wanted(terms, claimed_us)
    both_sides = 2 * (
        calls + terms.least_for(claimed_us) * (calls + _fewer(calls))
    )  # what bursts are announced with, and are given
    drawn = sum(nbytes(inputs, right) for inputs, right, *_ in measurement.ahead)
    ample = 0 if terms is CPU else min(AMPLE_BYTES, free_bytes(measurement.reference.device) // AMPLE)
    for _ in range(both_sides - len(measurement.ahead)):
        inputs, right, *more = _drawn(measurement)
        measurement.ahead.append((inputs, right, *more))
        drawn += nbytes(inputs, right)
        if drawn > max(AHEAD_BYTES, ample):
            return


def _drawn(measurement: Measurement) -> Content:
    """Fresh content. A burst sets no seeds: outputs that are drawn are compared with two draws of the reference."""
    inputs, seed, right = measurement.pair()
    again = measurement.outputs(inputs, secrets.randbits(31)) if measurement.drawn else None
    return inputs, right, seed, Drawn(again)


def _wanted(terms: Terms, claimed_us: float) -> int:
    """Calls in a long burst, where there is room."""
    return int(min(terms.longest, max(8 if terms is not CPU else 2, terms.aim_us / claimed_us)))


def _fewer(calls: int) -> int:
    """Calls in the short burst beside a long one."""
    return max(1, calls // 4)


def _read(measurement: Measurement, sides: list[Bursts], calls: int, claimed_us: float, terms: Terms) -> Trusted:
    on_host = measurement.gaps or measurement.reference.device == "cpu"
    if on_host or not any(side.side.launch_bound for side in sides):
        return _supported(sides, calls, "burst", claimed_us, terms)
    try:
        return _supported(sides, calls, "graph_burst", claimed_us, terms)
    except SubjectFailed as failed:
        if failed.kind != "exception":
            raise
    return _supported(sides, calls, "burst", claimed_us, terms)  # what one of them does cannot be captured


def _open(sides: list[Bursts], calls: int) -> None:
    try:
        for side in sides:
            side.open(calls)
    except torch.OutOfMemoryError as error:
        raise JudgeError(f"no memory for the trusted clock: {error}") from error


def _supported(sides: list[Bursts], calls: int, method: str, claimed_us: float, terms: Terms) -> Trusted:
    """Tries again while the claim is not supported: a busy machine makes bursts slower, never faster."""
    sizes = [_fewer(calls), calls]
    device, noisy_s = sides[0].reference.device, 0.0
    eager_us = statistics.median(sides[1].side.samples_us)
    for number in range(1, 1 + terms.most):
        if number > CALM_ATTEMPTS and terms is not CPU:
            time.sleep(PAUSE_S)
            noisy_s += wait_until_quiet(device) if noisy_s < NOISY_S else 0.0
        for side in sides:
            for size in side.rng.sample(sizes, len(sizes)):
                side.burst(size, graph=method == "graph_burst")
        copying = {size: min(burst.copy_us for side in sides for burst in side.seen[size]) for size in sizes}
        mine, theirs = (side.slope(copying) for side in sides)
        more = theirs - (
            eager_us - terms.nothing_us
        )  # a burst is read by one clock, a call by one that reads nothing too
        beside = max(min(max(more, 0.0), sides[0].dearest_us()), sides[0].written_us(method))
        call_us = max(mine - beside, 0.0)
        found = Trusted(call_us, method, calls, beside, number, theirs, terms.believes(claimed_us, call_us))
        if found.supported and number >= terms.least_for(claimed_us):
            break
        if number >= HOPELESS and not terms.believes(WIDE * claimed_us, call_us):
            break
    if not found.supported and not is_quiet(device):
        raise JudgeError(f"the GPU was not quiet for {noisy_s:.0f} s: no claim can be checked by the wall clock")
    return found


@dataclass(frozen=True)
class Burst:
    """Wall times of one burst by the referee's clock: its content's way into place, then all of its calls."""

    copy_us: float
    calls_us: float

    def delay_us(self, least_us: float) -> float:
        """What its content came later than it usually varies by."""
        return max(self.copy_us - COPIES_VARY * least_us - COPIES_VARY_US, 0.0)


class Bursts:
    """Bursts of one subject whose parameters are in place. Raises SubjectFailed, and Ended for wrong outputs."""

    def __init__(self, measurement: Measurement, side: Runner, rng: random.Random, terms: Terms) -> None:
        self.measurement = measurement
        self.reference = measurement.reference
        self.terms = terms
        self.seen: dict[int, list[Burst]] = defaultdict(list)  # by the number of calls
        self.side = side
        self.rng = rng
        self.contact: Contact = side.contact
        self._metas: list[TensorMeta] = []
        self._outputs: list[TensorMeta] = []
        self._stale: list[Content] = []  # has been seen: what a burst is announced with

    def room(self, claimed_us: float) -> int | None:
        """Calls in a long burst, or None where no burst can be."""
        terms, plan = self.terms, self.reference.plan if self.measurement.lean else None
        if plan is not None and self._allowed() < 2 * (plan.inputs + plan.outputs):
            return None
        inputs, right, *_ = self._content()
        again = self.measurement.outputs(inputs, secrets.randbits(31))
        pairs = enumerate(zip(right, again, strict=True))
        differing = {number for number, (a, b) in pairs if not a.isnan().any() and not torch.equal(a, b)}
        if differing - self.measurement.drawn:
            return None
        if packed(inputs)[0] != packed(self._content()[0])[0]:
            return None  # numbers beside the tensors change from draw to draw: calls cannot be announced
        each = sum(TensorMeta.of(tensor).nbytes for tensor in (*packed(inputs)[1], *right))
        wanted = _wanted(terms, claimed_us)
        return fitting(wanted, int(self._allowed() // max(1, each)), int(min(self._free(), 1 << 60) // max(1, each)))

    def _allowed(self) -> float:
        """Bytes that the content of a burst may take of a device that is otherwise empty."""
        in_place = self.reference.device == "cpu" or self.contact.arena.shared_in_place
        return self.terms.memory if in_place else min(self.terms.memory, COPIED_BYTES)

    def _free(self) -> float:
        """The same of what is free now."""
        return math.inf if self.reference.device == "cpu" else free_bytes(self.reference.device) // COPIES

    def open(self, calls: int) -> None:
        """Share memory for that many calls."""
        inputs, right, *_ = self._content()
        self._outputs = [TensorMeta.of(tensor) for tensor in right]
        self._metas = [*(TensorMeta.of(tensor) for tensor in packed(inputs)[1]), *self._outputs]
        self.contact.make_arena(self._metas * calls, [])

    def dearest_us(self) -> float:
        """What a burst may cost per call beside the call, at most."""
        return self.terms.gap_us + sum(meta.nbytes for meta in self._outputs) / self.terms.copied

    def written_us(self, method: str) -> float:
        """What a burst costs per call at least: outputs are stored, and the memory has no pause to write in."""
        written = PASSES * sum(meta.nbytes for meta in self._outputs) / self.terms.moved
        terms = self.terms
        each_us = max(terms.stored_us, terms.graph_stored_us) if method == "graph_burst" else terms.stored_us
        return written + each_us * len(self._outputs)

    def slope(self, copying: dict[int, float]) -> float:
        """Wall time per further call, from all bursts so far: of each size the fastest counts.

        `copying`: by size, the least time in which anybody's content came into place. Longer than that it may take
        because the subject works already: that counts.
        """
        (short, few), (calls, many) = sorted(
            (size, min(burst.calls_us + burst.delay_us(copying[size]) for burst in self.seen[size])) for size in copying
        )
        return max((many - few) / (calls - short), 0.0)

    def burst(self, calls: int, *, graph: bool) -> None:
        """One burst, its times added to `seen`."""
        contents = [self._content() for _ in range(calls)]
        slots = self._lay(calls)  # other content: what is computed from it ahead of time is wrong
        if graph:
            self.contact.ask(BurstCaptured)
        given = [tensor for inputs, *_ in contents for tensor in packed(inputs)[1]]
        ins = [self.contact.arena.view(slot) for mine, _ in slots for slot in mine]
        self._settle()
        began = time.perf_counter_ns()
        _copy_all(ins, given)
        self._settle()
        copied = time.perf_counter_ns()
        self.contact.ask(BurstDone)
        ended = time.perf_counter_ns()
        self.seen[calls].append(Burst((copied - began) / 1e3, (ended - copied) / 1e3))
        if self.side.blame:
            for (_, outs), (_, right, _, drawn) in zip(slots, contents, strict=True):
                self.measurement.check_later(self.side, outs, right, drawn)
        self._stale = contents if len(contents) > len(self._stale) else self._stale

    def _lay(self, calls: int) -> list[tuple[list[Slot], list[Slot]]]:
        """Announce `calls` calls on content of an earlier burst. Returns the slots of their inputs and outputs."""
        self._stale += [self._content() for _ in range(calls - len(self._stale))]
        contents = self._stale[:calls]
        given = [packed(inputs) for inputs, *_ in contents]
        metas = [TensorMeta.of(tensor) for _, right, *_ in contents for tensor in right]
        laid = [tensor for _, tensors in given for tensor in tensors]
        ins, outs = self.contact.lay_out(laid, metas, self.rng.randrange(JITTER))
        found, commands = [], []
        for (template, row), (_, right, seed, _) in zip(given, contents, strict=True):
            mine, ins = ins[: len(row)], ins[len(row) :]
            theirs, outs = outs[: len(right)], outs[len(right) :]
            commands.append(call(template, mine, theirs, seed))
            found.append((mine, theirs))
        self.contact.ask(BurstReady, calls=commands)
        return found

    def _content(self) -> Content:
        ahead = self.measurement.ahead
        return ahead.pop() if ahead else _drawn(self.measurement)

    def _settle(self) -> None:
        if self.reference.device != "cpu":
            torch.cuda.synchronize()


def fitting(wanted: float, alone: int, now: int) -> int | None:
    """Calls in a long burst: of those wanted what fits an empty device, and it now. None where two never would.

    Raises JudgeError where others leave so little room that a burst would be read off one or two calls.
    """
    best = min(int(wanted), alone)
    if best < 2:
        return None
    if now < min(FEW, best):
        raise JudgeError(f"too little GPU memory is free for the trusted clock: {now} calls fit, {best} are wanted")
    return min(best, now)


def _copy_all(places: list[torch.Tensor], tensors: list[torch.Tensor]) -> None:
    """With as few launches as can be: a GPU that waits for launches could do other work between them."""
    kinds = [(tensor.dtype, tensor.device) for tensor in tensors]
    for kind in dict.fromkeys(kinds):
        some = [number for number, one in enumerate(kinds) if one == kind]
        torch._foreach_copy_([places[number] for number in some], [tensors[number] for number in some])
