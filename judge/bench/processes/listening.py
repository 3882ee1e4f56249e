"""Hears the child that decides: where it is, what it has done, its one signed verdict. Standard library only."""

from __future__ import annotations

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from judge.bench.device.gpu_lock import LONGEST_WAIT_S
from judge.bench.exchange.fields import need
from judge.bench.exchange.reports import Doing, Finished, GaveUp, Inside, Layers, Report, Sealed
from judge.bench.foreign.whereabouts import PLACES
from judge.bench.processes.artefacts import Handover
from judge.bench.processes.baselines import Baselines, KnownTimes
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.children import Child
from judge.bench.processes.cores import CorePlan
from judge.bench.processes.forkserver import ForkServer
from judge.bench.processes.kept_referees import KeptReferees
from judge.bench.processes.watching import Broken, Watch
from judge.values import BASELINES, JudgeError, Limits, ProblemSpec, StageRecord

Progress = Callable[[StageRecord], None]
MOST_MESSAGES = 50_000  # of one evaluation; an honest referee sends two for every call of the problem's code
MOST_STAGES = 200  # the rest is left out
OWN_SHARE = 0.5  # of the memory that a child may have: if it held less, others used up the machine's
FORGES_FIX = "remove what writes to the process's open descriptors"


class Compiler(Protocol):
    """What a plan asks of the compile stage."""

    def hand_over(self, source: str, problem: ProblemSpec, folder: Path) -> Handover | None:
        """Give a child that will run `source` what was compiled for it; None where nothing is compiled ahead."""

    def learn(self, handover: Handover) -> None:
        """Keep what such a child found out, before its folder is wiped."""


class Host(Protocol):
    """What a plan asks of the bench that runs it."""

    device: str
    sandbox: bool
    minimum_sandbox: frozenset[str]  # layers without which no foreign code is run
    spares: int  # children that wait for any role
    times: KnownTimes
    alternatives: bool  # whether baselines beside eager are timed unasked

    @property
    def cores(self) -> CorePlan:
        """Which processors children run on."""

    @property
    def compiling(self) -> Compiler:
        """The compile stage."""

    @property
    def baselines(self) -> Baselines | None:
        """Times of baselines and torch.compile's code, kept on disk; None where nothing is measured."""

    def server(self, kind: str) -> ForkServer:
        """The zygote "plain", "interpreter" or "recorder"."""

    @property
    def kept_referees(self) -> KeptReferees:
        """Referees that stayed at their problem."""

    def stock(self, limits: Limits, *, least: int | None = None) -> None:
        """Make spare children for whoever is needed next; with `least`, only when fewer than so many are left."""

    def gpu_lock(self) -> int | None:
        """Descriptor of the GPU's lock file, for the caller to close; None without a GPU."""


class Listening(ABC):
    """A plan for children of which one decides. Reads that one's messages."""

    judge = ""
    uses_gpu = True  # where there is one
    grace_s = 0.0  # beyond the wall limit; for a child that keeps the limit itself

    def __init__(self) -> None:
        self.doing = "start"
        self.began = False  # whether it has said that it does anything
        self.watch: Watch | None = None  # while its children run
        self.broken: Broken | None = None  # what the problem did beyond its bounds
        self.ended_for: dict[str, str] = {}  # why we ended a child that took too much
        self._messages = 0
        self._starting_s = 0.0  # that a child was not there yet, at whose start nothing foreign takes part
        self._looked = math.inf
        self.inside = ""  # where the problem's own code was last known to run, one of PLACES; empty: in ours
        self.inside_s = 0.0  # for how long, known once settled
        self._entered = 0.0
        self.stages: list[StageRecord] = []
        self.layers: dict[str, str] = {}
        self.stays: list[str] = []  # who can take another assignment: the child that decides, and whom it keeps
        self.gave_up = ""  # the child's own message about a fault that is nobody's
        self.scarce = False  # so little of the GPU's memory is free that nobody should stay

    @abstractmethod
    def start(self, group: ChildGroup, *, key: str, nonce: str) -> None:
        """Start the children and give them their assignments."""

    def hear(self, report: Report, progress: Progress | None) -> Sealed | None:
        """Take one message; the verdict is returned. Raises BadClaim for what our own code does not say."""
        self._messages += 1
        need(self._messages <= MOST_MESSAGES, f"more than {MOST_MESSAGES:,} messages")
        match report:
            case Sealed():
                self.stays, self.scarce = list(report.stays), report.scarce
                return report
            case Layers():
                self.layers = self.layers or report.states  # the first comes before any foreign code
            case Doing():
                self.doing, self.began = report.stage, True
            case Inside():
                self._enters(report.place)
            case GaveUp():
                self.gave_up = report.why
            case Finished() if len(self.stages) < MOST_STAGES:
                self.stages.append(report.record)
                if progress is not None:
                    progress(report.record)
        return None

    def _enters(self, place: str) -> None:
        need(place in ("", *PLACES), "an unknown place")
        self.inside, self._entered = place, time.monotonic()

    def waited_s(self) -> float:
        """Seconds spent waiting for the GPU, as the kernel says, or for children that start; they extend the wall
        limit."""
        waited_s = self.watch.waited_s if self.watch is not None else 0.0
        return min(waited_s + self._starting_s, LONGEST_WAIT_S)

    @property
    def waits(self) -> bool:
        """Whether it waited for the GPU when it was last looked at."""
        return self.watch is not None and self.watch.waits

    def look(self, group: ChildGroup, limits: Limits) -> None:
        """See whether the child that decides has broken a bound of the problem."""
        now, decides = time.monotonic(), group.members[self.judge]
        begun = bool(self.layers or decides.layers)
        others = (child for name, child in group.members.items() if name != self.judge)
        if not begun or any(child.starts for child in others):
            self._starting_s += max(0.0, now - self._looked)
        self._looked = now
        if self.broken is None and self.watch is not None:
            self.broken = self.watch.look(decides, begun=begun)
            for name, beyond in self.watch.beyond(group.members).items():
                self._took_too_much(name, beyond, group)
        if self.broken is None and self.inside and not self.waits:
            inside_s = time.monotonic() - self._entered
            if inside_s > limits.stage_s:
                message = f"{self.inside} did not return within {_seconds(inside_s)}"
                self.broken = Broken("problem.timeout", message, "look for an endless loop, or make the shapes smaller")

    def _took_too_much(self, name: str, beyond: Broken, group: ChildGroup) -> None:
        """The problem's fault where its code runs in that child; else the child's own, which is ended for it."""
        if name == self.judge or name.partition("#")[0] in BASELINES:
            self.broken = beyond
        else:
            self.ended_for[name] = beyond.message
            group.members[name].server.kill(group.members[name])

    def settle(self, group: ChildGroup) -> None:
        """Note what is known only while the children still exist."""
        self.inside_s = time.monotonic() - self._entered
        child = group.members[self.judge]
        if child.layers is None:  # one that stayed said so at its start; what comes now may be foreign code's
            child.layers = self.layers
        for name in group.members:
            if name != self.judge:
                group.read_layers(name)

    def fault_of_problem(self, child: Child, limits: Limits) -> tuple[str, str]:
        """Reason code and sentence for a problem whose process hung, took too much memory or ended. After `settle`.
        Raises JudgeError where others took the memory."""
        last = f"the last finished stage is {self.stages[-1].name!r}" if self.stages else "no stage was finished"
        if child.killed and self.inside:
            return "problem.timeout", f"{self.inside} did not return within {_seconds(self.inside_s)}"
        if child.killed:
            return "problem.timeout", f"no result within {_seconds(limits.wall_s)}; {last}"
        if child.out_of_time:
            return "problem.timeout", f"{self.inside or 'it'} used up its processor time; {last}"
        if child.killed_for_memory:
            own_lack_of_memory(child, limits)
        if child.killed_for_memory or any(words in child.tail() for words in ("MemoryError", "allocate memory")):
            reason, end = "problem.memory", "needs more memory than it may have"
        else:
            reason, end = "problem.raises", f"ended the process: {child.ending()}"
        return reason, f"{self.inside} {end}" if self.inside else f"it {end}; {last}"


def own_lack_of_memory(child: Child, limits: Limits) -> None:
    """Raises JudgeError where a child that the kernel ended for lack of memory held little of it itself."""
    held_mb = child.peak_kb >> 10
    if held_mb < OWN_SHARE * limits.memory_mb:
        raise JudgeError(f"the machine ran out of memory: a child held {held_mb:,} of {limits.memory_mb:,} MiB")


def _seconds(value: float) -> str:
    return f"{value:.0f} s" if value >= 10 else f"{value:.1f} s"
