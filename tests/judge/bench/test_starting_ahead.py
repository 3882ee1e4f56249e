"""Children that start before they are needed, and what is let go of while others start."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.exchange.contact import Deadline
from judge.bench.judging import subjects as rooms
from judge.bench.judging.subjects import AMPLE, CORES, Subjects


class Contact:
    def __init__(self, said: list[object], name: str) -> None:
        self.said, self.name = said, name

    def answer(self, kind):
        self.said.append(("import", self.name))
        raise EOFError


@pytest.fixture
def subjects(monkeypatch: pytest.MonkeyPatch) -> Any:
    said: list[object] = []

    @contextmanager
    def left():
        said.append("left")
        try:
            yield
        finally:
            said.append("back")

    def ask_for(boss, wanted, timeout):
        said.append(("start", *wanted))
        return dict.fromkeys(wanted, 0)

    monkeypatch.setattr(rooms, "ask_for", ask_for)
    monkeypatch.setattr(rooms, "Contact", lambda name, *row: Contact(said, name))
    monkeypatch.setattr(rooms.os, "sched_getaffinity", lambda pid: range(CORES))
    monkeypatch.setattr(rooms.gpu, "free_share", lambda device: 0.9)
    assignment: Any = SimpleNamespace(payload={"subjects": []}, links=[], boss=None, device="cuda:0")
    found: Any = Subjects(assignment, Deadline(9, 9), None, {}, SimpleNamespace(left=left))
    found.said = said
    return found


def test_a_child_that_was_started_ahead_is_not_started_again(subjects):
    subjects.ahead({"audit": "census"})
    subjects.want({"audit": "census", "audit.noop": "noop"})
    subjects.want({"audit": "census"})
    assert subjects.said == ["left", ("start", "audit"), "back", "left", ("start", "audit.noop"), "back"]


def test_the_gpu_is_let_go_of_while_a_child_imports(subjects):
    subjects.want({"audit": "census"})
    subjects.said.clear()
    with pytest.raises(EOFError):
        subjects.introduce("audit", None, None)
    assert subjects.said == ["left", ("import", "audit"), "back"]
    assert subjects.waited_s > 0


@pytest.mark.parametrize("lacks", ["memory", "processors", "a GPU"])
def test_nothing_starts_ahead_at_the_cost_of_who_measures(subjects, monkeypatch, lacks):
    if lacks == "memory":
        monkeypatch.setattr(rooms.gpu, "free_share", lambda device: AMPLE)
    elif lacks == "processors":
        monkeypatch.setattr(rooms.os, "sched_getaffinity", lambda pid: range(CORES - 1))
    else:
        subjects.assignment.device = "cpu"
    subjects.ahead({"audit": "census"})
    assert subjects.said == []
