"""What a referee keeps from one evaluation of its problem to the next: the reference, the memory it lends, the
baseline's child, and questions drawn while nobody waits. Nothing of a candidate: every candidate's child is new.
"""

from __future__ import annotations

import gc
import os
import resource
import select
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch

from judge.bench.device import gpu
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.arenas import Arenas
from judge.bench.exchange.contact import Contact
from judge.bench.exchange.wire import WireClosed
from judge.bench.foreign.whereabouts import DeviceLost, Whereabouts
from judge.bench.judging.asking import Question, Questions
from judge.bench.judging.completion import Ended
from judge.bench.judging.parameters import Binding
from judge.bench.judging.reference import Reference
from judge.bench.judging.subjects import Subjects
from judge.bench.processes.child import Assignment, stamp_of
from judge.bench.processes.kept_referees import AHEAD_S, BASELINE
from judge.values import JudgeError

USES = 50  # evaluations after which another process takes over, with another seed for the constructor
AHEAD = 0.015  # of the GPU's memory, for inputs and outputs of the questions drawn ahead
ROOM = 0.3  # of the GPU's memory must be free for it
DRAWING = 0.8  # of AHEAD_S: it is not to be caught with the GPU's lock when it is stopped
LARGE_BYTES = 1 << 30  # inputs and outputs of a problem whose baseline does not stay: it holds as much again
CPU_SHARE = 0.5  # of the processor time that a child may take: the rest must do for one more evaluation
HOARD_BYTES = 1 << 30  # of freed memory; more is given back to the GPU between evaluations


class RefereeCache:
    """One referee's, as long as its process lives."""

    def __init__(self, assignment: Assignment) -> None:
        device = assignment.device
        self.device = device
        self.whereabouts = Whereabouts(assignment.boss.send, lambda: gpu.settle(device))
        self.reference: Reference | None = None
        self.questions: Questions | None = None
        self.modelled: Question | None = None  # the one whose traffic is counted; always the same
        self.declared: dict[str, str] | None = None  # other cases of the problem, with why they are left out
        self.arenas = Arenas()
        self.kept: dict[str, tuple[Contact, Binding]] = {}
        self.uses = 0
        self._lock_fd: int | None = None

    def take_lock(self, fd: int | None) -> int | None:
        """This evaluation's descriptor of the GPU's lock file in place of the last one's."""
        if self._lock_fd is not None:
            os.close(self._lock_fd)
        self._lock_fd = fd
        return fd

    def tidy(self, subjects: Subjects) -> bool:
        """Keep what may be kept and hang up on all others. False: the process has done its share."""
        self.uses += 1
        baseline = subjects.contacts.get(BASELINE)
        self.kept, subjects.reclaims = {}, False
        if baseline is not None and _may_stay(baseline):
            self.kept[BASELINE] = baseline, subjects.fits[BASELINE]
        subjects.release(*(name for name in subjects.contacts if name not in self.kept))
        self.arenas.back(kept=self.kept[BASELINE][0].arena if self.kept else None)
        self.questions = None
        soft, _ = resource.getrlimit(resource.RLIMIT_CPU)
        tired = soft != resource.RLIM_INFINITY and time.process_time() > CPU_SHARE * soft
        if self.reference is None or self.reference.was_short or self.reference.lean:
            return False
        self.reference.begin_anew()
        return self.uses < USES and not tired

    def next(self, assignment: Assignment) -> Assignment | None:
        """The next evaluation's assignment; questions are drawn until it comes. None when no more will come."""
        boss = assignment.boss
        self._give_back()
        try:
            if self.device != "cpu":
                with self.whereabouts.unheard(), _unread():
                    self._draw_until(boss.fileno())
            payload = boss.receive(None)
            boss.stamp = stamp_of(payload)
        except (WireClosed, Ended, DeviceLost, JudgeError, MemoryError):
            return None  # a new process will find out, and say, what is wrong
        return replace(assignment, payload=payload, links=boss.take_fds())

    def _give_back(self) -> None:
        """The memory of the evaluation that is over; its questions are only free now, and lie in a cycle."""
        gc.collect()
        if self.device != "cpu" and torch.cuda.memory_reserved() - torch.cuda.memory_allocated() > HOARD_BYTES:
            torch.cuda.empty_cache()

    def draw_beside(self, contact: Contact, questions: Questions) -> None:
        """Draw questions while a child works on its answer; none on a processor, which that would slow down."""
        drawn = 0
        while self.device != "cpu" and self._has_room(drawn) and not contact.has_answered:
            size = questions.draw_ahead()
            if not size:
                break
            drawn += size

    def _has_room(self, drawn: int) -> bool:
        """Whether more may be drawn ahead than these bytes of inputs and outputs."""
        if self.reference is None or self.reference.lean:
            return False
        free_bytes, all_bytes = torch.cuda.mem_get_info()
        return bool(drawn <= AHEAD * all_bytes and free_bytes >= ROOM * all_bytes)

    def _draw_until(self, fd: int) -> None:
        assert self.reference is not None
        questions, drawn = Questions(self.reference), 0
        lock = GpuLock(self._lock_fd)
        until = time.monotonic() + DRAWING * AHEAD_S
        while not select.select([fd], [], [], 0)[0] and time.monotonic() < until:
            if not self._has_room(drawn):
                break
            with lock.shared_at_once() as free:
                size = questions.draw_ahead() if free else 0
            if not size:
                break
            drawn += size
        self.questions = questions


def _may_stay(baseline: Contact) -> bool:
    """Not after bursts, for which it was lent more memory: what it had before is for other children then."""
    return baseline.warm and baseline.opened == 1 and baseline.arena.memory.numel() < LARGE_BYTES


@contextmanager
def _unread() -> Iterator[None]:
    """What is printed in the block goes nowhere: a pipe takes 64 KiB, then its writer waits until somebody reads."""
    sys.stdout.flush()
    sys.stderr.flush()
    kept = {fd: os.dup(fd) for fd in (1, 2)}
    null = os.open(os.devnull, os.O_WRONLY)
    try:
        for fd in kept:
            os.dup2(null, fd)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for fd, was in kept.items():
            os.dup2(was, fd)
            os.close(was)
        os.close(null)
