"""An evaluation in this process: the real referee asks real subjects, whose replies a liar may change on their way."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.audit import setting
from judge.bench.deciding.referee import Referee
from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.exchange.contact import Contact
from judge.bench.judging import subjects
from judge.bench.judging.reference import Reference
from judge.bench.processes.child import Assignment
from judge.bench.processes.cores import CorePlan
from judge.bench.processes.inspection import Seen
from judge.bench.processes.placing import Mover
from judge.bench.subjects.subject import Subject
from judge.bench.timing import enough
from judge.values import BASELINES, Outcome
from tests.judge.bench_problems import PROBLEM, SAME
from tests.judge.replies import COUNTED, HONEST, KERNEL, TUNED

Lie = Callable[[str, str, dict[str, Any]], dict[str, Any]]  # child, question, honest reply -> reply; or it raises
CODES = HONEST["forward"]["codes"]
BYTES = dict.fromkeys(("logical_bytes", "sector_bytes", "unique_bytes"), 1 << 20)


class Line:
    """Both ends of a channel at once: what is sent is answered before it is read."""

    def __init__(self, name: str, mode: str, folder: Path, lie: Lie) -> None:
        self.name, self.lie = name, lie
        self.replies: list[dict[str, Any]] = []
        self.fds: list[int] = []
        source = PROBLEM if mode in BASELINES else SAME
        payload = {"mode": mode if mode in BASELINES else "run", "policy": {}, "source": source, "case": None}
        self.subject = Subject(
            assignment(payload, folder), SimpleNamespace(send=self.replies.append, take_fds=self.take)
        )
        self.op, self.counts = "start", False
        self.coming: list[dict[str, Any]] = []
        self.subject.obey({"op": "start"})

    def take(self) -> list[int]:
        fds, self.fds = self.fds, []
        return fds

    def send(self, message: dict[str, Any], fds: tuple[int, ...] = (), timeout: float = 0.0) -> None:
        self.fds = [os.dup(fd) for fd in fds]
        self.op, self.counts, self.coming = message["op"], message.get("count") is True, []
        self.subject.obey(json.loads(json.dumps(message)))

    def receive(self, timeout: float | None) -> dict[str, Any]:
        """The next message: launches that were to be counted come one by one, ahead of the reply."""
        if not self.coming:
            reply = json.loads(json.dumps(self.lie(self.name, self.op, self.replies.pop())))
            told = reply.pop("traffic", []) if self.counts else []
            rows = told if isinstance(told, list) else [told]
            self.coming = [*({"counted": row} for row in rows), reply]
            if self.op == "start":
                self.op = "load"
                self.subject.obey({"op": "load"})
        return self.coming.pop(0)

    def close(self) -> None:
        """Nothing is open."""


class Runner:
    """The runner's end of the referee's private channel: it hears everything, and says where children are timed."""

    def __init__(self) -> None:
        self.mover = Mover(CorePlan(why="not divided: in this process"))
        self.answers: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        if "time" in message:
            answers = SimpleNamespace(send=lambda answer, timeout: self.answers.append(answer))
            self.mover.answer({}, message["time"], answers)  # type: ignore[arg-type]

    def receive(self, timeout: float) -> dict[str, Any]:
        return self.answers.pop(0)


def assignment(payload: dict[str, Any], folder: Path, **more: Any) -> Assignment:
    given = {"role": "", "boss": None, "links": [], "device": "cpu", "target": "sm_90", "adapter": None, "layers": {}}
    return Assignment(payload=payload, folder=folder, **{**given, **more})


class Bench:
    """Evaluates SAME as a candidate for PROBLEM, in this process and in about a second."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.lie = folder, honest
        self.reference: Reference | None = None
        monkeypatch.setattr(subjects, "ask_for", lambda boss, wanted, timeout: wanted)
        monkeypatch.setattr(subjects.Subjects, "_contact", lambda owner, name, mode: self._contact(owner, name, mode))
        monkeypatch.setattr(setting, "look", lambda boss, name, timeout: Seen((), (), ()))
        monkeypatch.setattr(enough, "ENOUGH_S", 0.0)

    def _contact(self, owner: Any, name: str, mode: Any) -> Contact:
        ours, theirs = socket.socketpair()
        theirs.close()
        contact = Contact(name, ours.detach(), owner.deadline, "cpu", owner.arenas)
        contact.hang_up()
        contact.link = Line(name, mode, self._folder(name), self.lie)  # type: ignore[assignment]
        return contact

    def _folder(self, name: str) -> Path:
        folder = self.folder / name.replace("#", "-")
        folder.mkdir(exist_ok=True)
        return folder

    def judge(self, lie: Lie, *, modelled: bool = False, rival: bool = False) -> Outcome:
        """What comes of it when replies pass through `lie`. Raises what the referee raises."""
        self.lie = (lambda *row: lie(row[0], row[1], counted(*row))) if modelled else lie
        names = ["candidate", "recorder"] if modelled else ["candidate", "eager", *(["incumbent"] if rival else [])]
        payload = {
            "subjects": names, "policy": {}, "basis": "modelled" if modelled else "measured", "wall_s": 600.0,
            "stage_s": 300.0, "timing": True, "timing_s": 0.01, "known_us": {}, "beside_best": [], "beat": None,
            "sealed": [], "defined": {"k": []}, "reaches": [], "stay": False, "source": PROBLEM, "case": None,
        }  # fmt: skip
        given = assignment(payload, self._folder("referee"), boss=Runner(), links=names)
        cache = RefereeCache(given)
        cache.reference = self.reference
        found = Referee(given, cache).outcome()
        self.reference = cache.reference
        return found


def honest(name: str, op: str, reply: dict[str, Any]) -> dict[str, Any]:
    return reply


def counted(name: str, op: str, reply: dict[str, Any]) -> dict[str, Any]:
    """As where kernels are interpreted or recorded: a call tells what was seen of it."""
    if op != "forward" or "error" in reply:
        return reply
    if name == "recorder":
        fits = TUNED | {"chosen": TUNED["first"]}
        return reply | {
            "kernels": [KERNEL],
            "tuned": [fits],
            "launchers": HONEST["forward"]["launchers"],
            "codes": CODES,
        }
    return reply | {"traffic": [COUNTED | BYTES], "launches": HONEST["forward"]["launches"], "codes": CODES}
