"""The subjects of one evaluation: what each mode runs and where, and more of them while the referee works.

Standard library only. The referee asks {"need": {name: mode}} on its private channel and is answered {"given": [name]}
with its ends of the children's channels in that order, or {"refused": why}. A baseline in another case than the
evaluated one is of mode "eager@CASE".
"""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, replace
from pathlib import Path

from judge.bench.exchange.reports import MOST_CHILDREN
from judge.bench.exchange.wire import Channel, Message, WireClosed, WireTimeout
from judge.bench.processes.artefacts import Handover
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.listening import Host
from judge.values import BASELINES, Job, JudgeError

MOST = MOST_CHILDREN  # further ones of one evaluation: a hostile problem shares the referee's process and may ask
MOST_REQUESTS = 64
ANSWER_S = 5.0  # the referee waits for its answer; one that does not read it in this time is past helping


@dataclass(frozen=True)
class Mode:
    """What a child of this mode is given to run (candidate, incumbent, problem), in which zygote, doing what."""

    source: str
    zygote: str  # "device": the one that runs kernels on this bench's device
    does: str  # mode of the subject


MODES = {
    "run": Mode("candidate", "device", "run"),
    "incumbent": Mode("incumbent", "device", "run"),
    "census": Mode("candidate", "device", "census"),  # every launch is noted
    "noop": Mode("candidate", "device", "noop"),  # launches have no effect
    "raise": Mode("candidate", "device", "raise"),  # launches fail
    **{name: Mode("problem", "plain", name) for name in BASELINES},
    "record": Mode("candidate", "recorder", "record"),
}
IN_CASE = "@"


def of_case(mode: str, case: str) -> str:
    """The mode of a baseline's child that runs the problem in `case`."""
    return f"{mode}{IN_CASE}{case}"


class Refused(Exception):
    """The referee asked for children it cannot have; the text says why."""


class SubjectStarter:
    """Starts subjects for one job and counts them."""

    def __init__(self, bench: Host, job: Job) -> None:
        self.bench, self.job = bench, job
        self._requests = 0
        self._given = 0
        self._handovers: dict[str, Handover] = {}
        self._compilers: dict[str, Path] = {}  # folders of children in which torch.compile works, by mode

    def start(self, group: ChildGroup, name: str, mode: str) -> socket.socket:
        """One child with its assignment; the referee's end of its channel, for the caller to close."""
        mode, _, case = mode.partition(IN_CASE)
        what = MODES[mode]
        kind = self._kind(what.zygote)
        # Spares are for any role, and wait where nothing limits memory in any case.
        memfd = kind == "plain" and self.bench.spares > 0
        child = group.start(name, self.bench.server(kind), allow_fork=kind != "interpreter", allow_memfd=memfd)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        policy = self.job.problem.policy
        baseline = BASELINES.get(what.does)
        if baseline is not None and baseline.precision is not None:
            policy = replace(policy, precision=baseline.precision)
        payload = {"role": "subject", "mode": what.does, "policy": policy.to_json(), **self._source(what.source, case)}
        if kind == "plain" and what.source != "problem":
            for earlier in self._handovers.values():  # a second process takes the configurations of the first
                self.bench.compiling.learn(earlier)
            handover = self.bench.compiling.hand_over(payload["source"], self.job.problem, child.folder)
            if handover is not None:
                self._handovers[name] = handover
                payload |= handover.payload
        if baseline is not None and baseline.mode and self.bench.baselines is not None:
            self.bench.baselines.seed(self.job.problem, baseline.subject, child.folder)
            self._compilers[what.does] = child.folder
        group.assign(name, payload, [theirs])
        return ours

    def settle(self) -> dict[str, dict[str, int]]:
        """While the folders exist: keep what children found out; what each had to compile itself, by child."""
        for mode, folder in self._compilers.items():
            if self.bench.baselines is not None:
                self.bench.baselines.take(self.job.problem, BASELINES[mode].subject, folder)
        found = {}
        for name, handover in self._handovers.items():
            self.bench.compiling.learn(handover)
            kernels, stubs = handover.made_here()
            found[name] = {"given": len(handover.given), "compiled_here": kernels, "stubs_built": stubs}
        return found

    def _kind(self, zygote: str) -> str:
        if zygote != "device":
            return zygote
        return "interpreter" if self.bench.device == "interpreter" else "plain"

    def _source(self, what: str, case: str) -> Message:
        if what == "problem":
            return {"source": self.job.problem.source, "case": case or self.job.problem.case}
        return {"source": self.job.incumbent if what == "incumbent" else self.job.candidate}

    def provide(self, group: ChildGroup, wanted: dict[str, str], referee: Channel) -> None:
        """Answer one request. Nothing is started unless all of it can be."""
        self._requests += 1
        if self._requests > MOST_REQUESTS:
            return  # no honest referee asks so often; silence costs it its own time
        links: list[socket.socket] = []
        try:
            for name, mode in self._checked(group, wanted).items():
                links.append(self.start(group, name, mode))
                self._given += 1
            answer: Message = {"given": list(wanted)}
        except Refused as refusal:
            answer = {"refused": str(refusal)}
        try:
            referee.send(answer, tuple(link.fileno() for link in links), timeout=ANSWER_S)
        except (WireClosed, WireTimeout):
            pass  # it is gone or does not listen; how it ends says the rest
        finally:
            for link in links:
                link.close()

    def _checked(self, group: ChildGroup, wanted: dict[str, str]) -> dict[str, str]:
        if self._given + len(wanted) > MOST:
            raise Refused(f"more than {MOST} further children")
        for name, said in wanted.items():
            mode, _, case = said.partition(IN_CASE)
            if not name or name in group.members:
                raise Refused(f"the name {name!r} is taken or no name")
            if mode not in MODES or (case and MODES[mode].source != "problem"):
                raise Refused(f"unknown mode {said!r}")
            if MODES[mode].source == "incumbent" and self.job.incumbent is None:
                raise Refused("there is no incumbent")
        return wanted


def ask_for(boss: Channel, wanted: dict[str, str], timeout: float) -> dict[str, int]:
    """The referee's side: name -> descriptor of its channel to that child. Raises JudgeError when refused or late."""
    boss.send({"need": wanted})
    try:
        answer = boss.receive(timeout)
    except WireTimeout as error:
        raise JudgeError(f"the runner gave no further children within {timeout:.1f} s") from error
    links = boss.take_fds()
    if answer.get("given") != list(wanted) or len(links) != len(wanted):
        for link in links:
            os.close(link)
        raise JudgeError(f"the runner gave no further children: {answer.get('refused', 'no such answer')}")
    return dict(zip(wanted, links, strict=True))
