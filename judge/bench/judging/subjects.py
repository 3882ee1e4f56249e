"""The subjects a referee talks to: getting more of them, readying them for questions, hanging up on them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from judge.bench.device import gpu
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.exchange.arenas import Arenas
from judge.bench.exchange.claims import Constructed
from judge.bench.exchange.contact import Contact, Deadline, SubjectFailed
from judge.bench.exchange.nested import TensorMeta, packed
from judge.bench.judging.asking import Question
from judge.bench.judging.completion import Ended, of_subject
from judge.bench.judging.parameters import SEEDED, Binding
from judge.bench.judging.reference import Reference
from judge.bench.processes.child import Assignment
from judge.bench.processes.inspection import look
from judge.bench.processes.placing import Placed, timed
from judge.bench.processes.subject_starter import ask_for
from judge.values import BASELINES

Result = TypeVar("Result")
AMPLE, CORES = 0.5, 8  # of a GPU's memory free, and processors: children start before they are needed
FIRST_PAUSE_S, ENDING_S = 0.2, 3.0  # between looks whether a child has ended, and at most in all
OTHERS = (*BASELINES, "incumbent")  # children that run something else than the candidate


class Subjects:
    """Contacts by name, and how the parameters of those that are ready map to the reference's."""

    def __init__(
        self,
        assignment: Assignment,
        deadline: Deadline,
        arenas: Arenas,
        kept: dict[str, tuple[Contact, Binding]],
        lock: GpuLock | None = None,
    ) -> None:
        """`kept`: children that are ready from an earlier evaluation. `lock` is let go of while others start."""
        names: list[str] = assignment.payload["subjects"]
        self.assignment = assignment
        self.deadline = deadline
        self.arenas = arenas
        self.lock = lock or GpuLock(None)
        self.reclaims = False
        self.waited_s = 0.0  # for children that had to start and to import
        self.contacts = {name: self._contact(name, fd) for name, fd in zip(names, assignment.links, strict=False)}
        self.fits: dict[str, Binding] = {}
        self._begun: dict[str, SubjectFailed | None] = {}  # to construct their models, or failed on the way to it
        self._seeded = False  # the candidate makes its own parameters, in whichever process
        for name, (contact, fitted) in kept.items():
            contact.deadline, contact.lock = deadline, self.lock
            self.contacts[name], self.fits[name] = contact, fitted

    def follow_seeds(self) -> None:
        """From now on the candidate's children make their own parameters."""
        self._seeded = True
        self.fits["candidate"] = SEEDED

    def _contact(self, name: str, fd: int) -> Contact:
        return Contact(name, fd, self.deadline, self.assignment.device, self.arenas, self.lock)

    def more(self, wanted: dict[str, str]) -> dict[str, Contact]:
        """Further children, each in a fresh process: name ("candidate#2", "eager#2", "incumbent") -> mode, see MODES.

        They import at once; `introduce` makes them ready. Release whom you no longer need. Raises JudgeError.
        """
        with self._waiting():
            links = ask_for(self.assignment.boss, wanted, self.deadline.stage())
        given = {name: self._contact(name, fd) for name, fd in links.items()}
        self.contacts |= given
        return given

    def want(self, wanted: dict[str, str]) -> None:
        """The same for those of them who have not been asked for yet."""
        missing = {name: mode for name, mode in wanted.items() if name not in self.contacts}
        if missing:
            self.more(missing)

    def ahead(self, wanted: dict[str, str]) -> None:
        """Have those start who will be wanted soon, where nobody who measures meanwhile lacks memory or a processor."""
        device, cores = self.assignment.device, len(os.sched_getaffinity(0))
        if device != "cpu" and cores >= CORES and gpu.free_share(device) > AMPLE:
            self.want(wanted)

    @contextmanager
    def _waiting(self) -> Iterator[None]:
        """A process starts or imports: no work for the GPU."""
        with self.lock.left():
            started = time.monotonic()
            try:
                yield
            finally:
                self.waited_s += time.monotonic() - started

    def begin(self, names: Iterable[str], reference: Reference, first: Question) -> None:
        """Let children import and begin to construct their models; `introduce` waits for that, and raises what failed.

        All have imported before any constructs: the GPU cannot be let go of while that is under way, and one that has
        to make its context first may stand behind somebody who waits for the GPU.
        """
        new = [name for name in names if name not in self.fits and name not in self._begun]
        for name in new:
            self._load(name)
        for name in new:
            if self._begun[name] is None:
                self._construct(name, reference, first)

    def _load(self, name: str) -> None:
        self._begun[name] = None
        try:
            with self._waiting():
                self.contacts[name].load()
        except SubjectFailed as failed:
            self._begun[name] = failed

    def _construct(self, name: str, reference: Reference, first: Question) -> None:
        contact = self.contacts[name]
        try:
            others = [TensorMeta.of(t) for t in (*reference.first.values(), *packed(reference.init)[1])]
            contact.make_arena(first.room(any_layout=not reference.lean), others)
            seed = first.state.seed if self._makes_its_own(name) else None
            seed = reference.construct_seed if seed is None else seed
            draws = reference.draws if seed == reference.construct_seed else None
            contact.begin_to_construct(reference.init, seed, draws)
        except SubjectFailed as failed:
            self._begun[name] = failed

    def _makes_its_own(self, name: str) -> bool:
        """Whether the child's parameters come from a seed."""
        return self._seeded and not _is_other(name)

    def introduce(
        self, name: str, reference: Reference, first: Question, meanwhile: Callable[[], None] = lambda: None
    ) -> Binding:
        """Let a child construct its model, in memory that holds `first`; `meanwhile` is done while it does. One that
        has answered for another reference constructs a model of this one in place of that.

        Raises SubjectFailed or Ended, and what `meanwhile` raises.
        """
        if self.fits.pop(name, None) is not None:
            self._begun[name] = None
            self._construct(name, reference, first)
        self.begin([name], reference, first)
        failed = self._begun.pop(name)
        if failed is not None:
            raise failed
        built = self.contacts[name].answer(Constructed, meanwhile)
        if self._makes_its_own(name):
            self.fits[name] = SEEDED
            return SEEDED
        try:
            self.fits[name] = reference.bound(built)
        except Ended as ended:
            if _is_other(name):  # it had these parameters, or passed with them
                raise SubjectFailed(name, "garbage", Constructed.op, "other parameters than it has") from ended
            raise
        return self.fits[name]

    def at_once(self, *, lean: bool) -> list[str]:
        """Who is made ready before the rounds: where memory is short, a baseline only when it is timed."""
        self.reclaims = lean
        return [name for name in self.contacts if name != "incumbent" and not (lean and name == "eager")]

    def ready(
        self, name: str, reference: Reference, first: Question, meanwhile: Callable[[], None] = lambda: None
    ) -> tuple[Contact, Binding]:
        """A child that has imported and constructed its model."""
        if name not in self.fits:
            self.introduce(name, reference, first, meanwhile)
        return self.contacts[name], self.fits[name]

    def timed(self, names: Sequence[str]) -> AbstractContextManager[Placed]:
        """These children are on the processors for timing as long as the block lasts. Raises JudgeError."""
        return timed(self.assignment.boss, names, self.deadline.stage())

    def release(self, *names: str) -> None:
        """Hang up; they end by themselves. With `reclaims` wait for that: what was lent to them is lent again."""
        leaving = {name: self.contacts.pop(name) for name in names}
        for contact in leaving.values():
            contact.hang_up()
        until = time.monotonic() + ENDING_S
        for name, contact in leaving.items():
            if self.reclaims and contact.lent is not None and self._has_ended(name, until):
                self.arenas.returned(contact.lent)

    def _has_ended(self, name: str, until: float) -> bool:
        """Whether the runner sees nothing of a child that was hung up on: else it could still read what it was lent."""
        pause_s = FIRST_PAUSE_S
        while look(self.assignment.boss, name, self.deadline.stage()).threads:
            if time.monotonic() > until:
                return False
            time.sleep(pause_s)
            pause_s *= 2  # a few looks: the runner answers a bounded number
        return True


def _is_other(name: str) -> bool:
    return name.partition("#")[0] in OTHERS


def guarded(stage: str, step: Callable[[], Result]) -> Result:
    """Turn a subject's failure into the ending it means."""
    try:
        return step()
    except SubjectFailed as failed:
        raise of_subject(failed, stage) from failed
