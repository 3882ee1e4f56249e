"""The referee's end of a subject: asks with a time limit, gives it an arena, and turns silence into a verdict."""

from __future__ import annotations

import math
import os
import secrets
import select
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import torch

from judge.bench.device.gpu import IpcRefused
from judge.bench.device.gpu_lock import LONGEST_WAIT_S, GpuLock
from judge.bench.exchange.arenas import Arena, Arenas, Slot, capacity, plan
from judge.bench.exchange.claims import (
    MOST_ROWS,
    MOST_SWITCHES,
    ArenaOpened,
    Beside,
    Claim,
    Constructed,
    Forwarded,
    Loaded,
    Started,
    StateTaken,
)
from judge.bench.exchange.fields import BadClaim, Fields
from judge.bench.exchange.known_draws import KnownDraws
from judge.bench.exchange.nested import TensorMeta, packed
from judge.bench.exchange.poison import poison
from judge.bench.exchange.wire import Channel, Message, WireClosed, WireGarbage, WireTimeout
from judge.values import JudgeError

START_S = 120.0  # until a process is there: contexts are made one after another on some hosts

Answer = TypeVar("Answer", bound=Claim)


@dataclass(eq=False)  # not frozen: a context manager sets an exception's traceback
class SubjectFailed(Exception):
    """A subject did not answer as asked.

    `kind`: died, timeout, garbage, touched (code of ours), too_large (what we asked), or a fault that it reported, one
    of FAULTS.
    """

    subject: str
    kind: str
    doing: str
    message: str
    reason: str = ""


class Deadline:
    """Time left for the whole evaluation and for one stage. `now` is a monotonic clock."""

    def __init__(self, wall_s: float, stage_s: float, now: Callable[[], float] = time.monotonic) -> None:
        self._now = now
        self._end = now() + wall_s
        self._stage_s = stage_s
        self._grace_s = LONGEST_WAIT_S
        self._paused_at: float | None = None

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Time in the block does not count, up to LONGEST_WAIT_S in all; nor does it while the block goes on."""
        if self._paused_at is not None:  # within another such block
            yield
            return
        self._paused_at = self._now()
        try:
            yield
        finally:
            paused_s = self._paused_s()
            self._paused_at = None
            self._grace_s -= paused_s
            self._end += paused_s

    def _paused_s(self) -> float:
        return 0.0 if self._paused_at is None else min(self._now() - self._paused_at, self._grace_s)

    def renew(self, wall_s: float) -> None:
        """From now on `wall_s` seconds are left."""
        self._end = self._now() + wall_s

    def stage(self) -> float:
        """Seconds that the next single step may take."""
        return max(0.05, min(self._stage_s, self._end + self._paused_s() - self._now()))


class Contact:
    """One subject as the referee sees it. `name` is candidate, recorder, eager or compile."""

    def __init__(
        self,
        name: str,
        fd: int,
        deadline: Deadline,
        device: str,
        arenas: Arenas | None = None,
        lock: GpuLock | None = None,
    ) -> None:
        """`arenas` lends the memory that is shared with it; `lock` is held while a question is out."""
        self.name = name
        self.link = Channel(socket.socket(fileno=fd))
        self.deadline = deadline
        self.device = device
        self.held: object = None  # the parameters that it was given last
        self.peak_bytes = 0  # the most memory that its tensors took at a time, as it says
        self.warm = False  # it has done all that only first calls do
        self.lock = lock or GpuLock(None)
        self._asked = False  # a question is out
        self.answers = True  # it has not been late, gone or beside the protocol
        self._arenas = arenas or Arenas()
        self._arena: Arena | None = None
        self.opened = 0  # arenas it was lent; it may still see the earlier ones
        self.doing = Started.op
        self.switched: dict[str, str] = {}  # switches of torch it turned -> while doing what
        self.quickest_s = math.inf  # of its calls, from the question to the answer
        self._told = 0.0
        self.prepare_us: list[float] = []  # how long each prepare() took, by its own clock
        self._init: Any = None
        self._seed: int | None = None
        self._counts = False  # launches are told on the way to the answer
        self._number = ""  # of the question asked last; nobody can answer one that has not been asked

    @property
    def lent(self) -> Arena | None:
        """The memory that it was lent last, if any."""
        return self._arena

    @property
    def arena(self) -> Arena:
        assert self._arena is not None, "make_arena comes first"
        return self._arena

    def ask(self, kind: type[Answer], /, **fields: Any) -> Answer:
        """Ask the question that `kind` answers, and wait. Raises SubjectFailed."""
        self.tell(kind, **fields)
        return self.answer(kind)

    def tell(self, kind: type[Claim], /, fds: tuple[int, ...] = (), **fields: Any) -> None:
        self.lock.let_pass()
        self.doing, self._number = kind.op, secrets.token_hex(8)
        self._counts = fields.get("count") is True
        limit = self.deadline.stage()
        try:
            self.link.send({"op": kind.op, "number": self._number, **fields}, fds, timeout=limit)
        except WireTimeout as error:
            raise self._failed("timeout", f"no sign of listening within {limit:.1f} s") from error
        except WireClosed as error:
            raise self._failed("died", "it ended without an answer") from error
        except WireGarbage as error:
            raise self._failed("too_large", f"the problem's arguments of {kind.op} do not fit: {error}") from error
        self._told = time.monotonic()
        self._is_asked(True)

    @property
    def has_answered(self) -> bool:
        """Whether something came from it that was not read: its answer, or its end."""
        return bool(select.select([self.link.fileno()], [], [], 0)[0])

    def load(self) -> Loaded:
        """Wait until its process is there, which counts for no time limit as none of its code has run yet, and then for
        its import. Raises SubjectFailed, and JudgeError for a process that does not come."""
        try:
            with self.deadline.paused():
                self.answer(Started, within_s=START_S)
        except SubjectFailed as failed:
            if failed.kind == "timeout":
                raise JudgeError(f"the {self.name} child was not ready within {START_S:.0f} s") from failed
            failed.doing = Loaded.op
            raise
        self.doing = Loaded.op
        return self.answer(Loaded)

    def answer(
        self, kind: type[Answer], meanwhile: Callable[[], None] = lambda: None, within_s: float | None = None
    ) -> Answer:
        """The answer to the question told last, which `kind` answers. No other code sees what a subject sent.

        `meanwhile` comes before the wait and counts for no time limit, whose place `within_s` takes. Raises
        SubjectFailed for faults it reported, and when it is late, gone or not understood.
        """
        assert kind.op == self.doing, f"{kind.op} was not asked"
        meanwhile()
        limit = self.deadline.stage() if within_s is None else within_s
        try:
            reply = Fields(self._received(limit), "a reply")
            if reply.raw("number") != self._number:
                raise self._failed("garbage", "it sent an answer to another question")
            self._note(Beside.read(reply))
            if kind is Forwarded:
                self.quickest_s = min(self.quickest_s, time.monotonic() - self._told)
            return kind.read(reply)
        except WireTimeout as error:
            raise self._failed("timeout", f"no answer within {limit:.1f} s") from error
        except WireClosed as error:
            raise self._failed("died", "it ended without an answer") from error
        except WireGarbage as error:
            raise self._failed("garbage", f"it sent {error} instead of an answer") from error
        except BadClaim as error:
            raise self._failed("garbage", f"it sent {error} instead of an answer to {self.doing}") from error
        finally:
            self._is_asked(False)

    def _is_asked(self, asked: bool) -> None:
        self.lock.asked += asked - self._asked
        self._asked = asked

    def _received(self, limit: float) -> Message:
        """The answer, with the launches counted on the way to it: each was sent when it had been made."""
        end = time.monotonic() + limit
        counted: list[object] = []
        while "counted" in (message := self.link.receive(max(0.0, end - time.monotonic()))):
            if not self._counts or len(counted) >= MOST_ROWS:
                raise WireGarbage("more counted launches than it was asked for")
            counted.append(message["counted"])
        return {**message, "traffic": counted} if self._counts else message

    def _note(self, beside: Beside) -> None:
        """Keep what it says about itself beside the answer. Raises SubjectFailed for a fault."""
        for name in beside.switched[: MOST_SWITCHES - len(self.switched)]:
            self.switched.setdefault(name, self.doing)
        if beside.prepare_us is not None:
            self.prepare_us.append(beside.prepare_us)
        self.peak_bytes = max(self.peak_bytes, beside.peak_bytes)
        if beside.touched:
            raise self._failed("touched", ", ".join(beside.touched))
        if beside.fault is not None:
            raise SubjectFailed(self.name, beside.fault.kind, self.doing, beside.fault.message, beside.fault.reason)

    def begin_to_construct(self, init: Any, seed: int, draws: KnownDraws | None = None) -> None:
        """Let it build its model from the reference's arguments when its generators stand at `seed`; it answers with a
        Constructed. `draws`: what the reference drew from that seed."""
        template, tensors = packed(init)
        ins, _ = self.lay_out(tensors, [], 0)
        self._init, self._seed = init, seed
        rows, fds = (draws.rows, draws.fds) if draws is not None else ({}, ())
        self.tell(Constructed, fds, args=template, slots=[slot.to_json() for slot in ins], seed=seed, draws=rows)

    def reconstruct(self, seed: int) -> None:
        """Build anew, unless this seed's model is there already."""
        if seed != self._seed:
            self.begin_to_construct(self._init, seed)
            self.answer(Constructed)

    def _failed(self, kind: str, message: str) -> SubjectFailed:
        self.answers = False
        return SubjectFailed(self.name, kind, self.doing, message)

    def make_arena(self, metas: list[TensorMeta], others: list[TensorMeta]) -> None:
        """Share memory that holds either list at any jitter; device memory in place where the driver allows it. What it
        was lent before does where it is large enough."""
        size = max(capacity(metas), capacity(others), 1 << 16)
        if self._arena is not None and self._arena.memory.numel() >= size:
            return
        in_place = True
        while True:
            try:
                arena, offer, fds = self._arenas.offer(size, self.device, in_place=in_place)
            except IpcRefused:
                in_place = False
                continue
            try:
                self.tell(ArenaOpened, fds, **offer)
                self.answer(ArenaOpened)
            except SubjectFailed as error:
                if in_place and self.device != "cpu" and "IpcRefused" in error.message:
                    in_place = False
                    continue
                raise
            finally:
                for fd in fds:
                    os.close(fd)
            self._arena, self.opened = arena, self.opened + 1
            return

    def put_state(
        self, state: list[tuple[str, torch.Tensor]], *, hook: bool, again: bool, gradients: Sequence[str] = ()
    ) -> None:
        """Hand over parameters and buffers under the subject's own names; `gradients` names whose are asked for."""
        metas = [TensorMeta.of(tensor) for _, tensor in state]
        slots, _ = plan(metas)
        for slot, (_, tensor) in zip(slots, state, strict=True):
            self.arena.put(slot, tensor)
        self._settle()
        rows = [[name, slot.to_json()] for slot, (name, _) in zip(slots, state, strict=True)]
        self.ask(StateTaken, state=rows, hook=hook, again=again, gradients=list(gradients))
        if rows:
            self._seed = None  # no longer what a seed gave it

    def lay_out(
        self, inputs: list[torch.Tensor], outputs: list[TensorMeta], jitter: int, *, expanded: bool = False
    ) -> tuple[list[Slot], ...]:
        """Write `inputs` at a fresh address, poison the output slots, fill the bands. Returns (inputs, outputs).

        `expanded`: those that are expanded stay so; elsewhere they are contiguous.
        """
        metas = [TensorMeta.given(tensor) if expanded else TensorMeta.of(tensor) for tensor in inputs]
        slots, _ = plan([*metas, *outputs], 0, jitter)
        ins, outs = slots[: len(metas)], slots[len(metas) :]
        self.arena.fill_bands(slots)
        for slot, tensor in zip(ins, inputs, strict=True):
            self.arena.fill_gaps(slot, tensor)
            self.arena.put(slot, tensor)
        for slot in outs:
            poison(self.arena.view(slot))
        self._settle()
        return ins, outs

    def take(self, slots: list[Slot]) -> list[torch.Tensor]:
        """Private copies of slots: what happens to the arena afterwards no longer matters."""
        copies = [self.arena.view(slot).clone().to(self.device) for slot in slots]
        self._settle()
        return copies

    def _settle(self) -> None:
        if self.device != "cpu":
            torch.cuda.synchronize()

    def hang_up(self) -> None:
        self._is_asked(False)
        self.link.close()
