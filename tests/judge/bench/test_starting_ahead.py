"""Children that start before they are needed, and what is let go of while others start."""

from __future__ import annotations

from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.exchange.contact import Deadline, SubjectFailed
from judge.bench.judging import subjects as rooms
from judge.bench.judging.subjects import AMPLE, CORES, Subjects


class Contact:
    def __init__(self, said: list[object], name: str) -> None:
        self.said, self.name = said, name

    def load(self):
        self.said.append(("load", self.name))
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
    assert subjects.said == ["left", ("load", "audit"), "back"]
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


class Constructing(Contact):
    """Imports, unless it `fails`, and constructs a model with one parameter."""

    def __init__(self, said: list[object], name: str, fails: bool = False) -> None:
        super().__init__(said, name)
        self.fails = fails

    def load(self):
        self.said.append(("load", self.name))
        if self.fails:
            raise SubjectFailed(self.name, "died", "load", "gone")

    def answer(self, kind, meanwhile=lambda: None):
        self.said.append((kind.op, self.name))
        meanwhile()
        return SimpleNamespace(state=(), hook=False)

    def make_arena(self, metas, others):
        self.said.append(("arena", self.name))

    def begin_to_construct(self, init, seed, draws):
        self.said.append(("begin", self.name, seed, draws))


def test_children_construct_their_models_side_by_side(subjects, monkeypatch):
    said, reference = (
        subjects.said,
        SimpleNamespace(first={}, init=[], lean=False, construct_seed=7, draws="drawn", bound=lambda _: "fit"),
    )
    first: Any = SimpleNamespace(room=lambda any_layout: [], state=SimpleNamespace(seed=9))
    subjects.contacts = {name: Constructing(said, name) for name in ("candidate#2", "eager#2")}
    subjects.contacts["incumbent#2"] = Constructing(said, "incumbent#2", fails=True)
    subjects.begin(subjects.contacts, reference, first)
    imported = [place for place, row in enumerate(said) if isinstance(row, tuple) and row[0] == "load"]
    assert len(imported) == 3 and max(imported) < said.index(("arena", "candidate#2")), (
        "nobody is waited for with a question out: the GPU could not be let go of"
    )
    told = [row for row in said if isinstance(row, tuple)]
    assert [row for row in told if row[0] == "begin"] == [
        ("begin", "candidate#2", 7, "drawn"),
        ("begin", "eager#2", 7, "drawn"),
    ]
    assert not [row for row in told if row[0] == "construct"], "nobody is waited for"
    assert subjects.introduce("candidate#2", reference, first, lambda: said.append("meanwhile")) == "fit"
    assert said[-2:] == [("construct", "candidate#2"), "meanwhile"]
    with pytest.raises(SubjectFailed, match="gone"):
        subjects.introduce("incumbent#2", reference, first)
    before = len(said)
    subjects.begin(["candidate#2"], reference, first)
    assert len(said) == before, "it is ready"


def test_a_child_that_has_answered_constructs_a_model_of_the_next_reference(subjects):
    def reference(seed: int) -> Any:
        return SimpleNamespace(
            first={}, init=[], lean=False, construct_seed=seed, draws=None, bound=lambda _: f"fit {seed}"
        )

    first: Any = SimpleNamespace(room=lambda any_layout: [], state=SimpleNamespace(seed=9))
    subjects.contacts = {"case#1": Constructing(subjects.said, "case#1")}
    assert [subjects.introduce("case#1", reference(seed), first) for seed in (7, 8)] == ["fit 7", "fit 8"]
    told = [row for row in subjects.said if isinstance(row, tuple)]
    new = [("arena", "case#1"), ("begin", "case#1", 8, None), ("construct", "case#1")]
    assert told.count(("load", "case#1")) == 1 and told[-3:] == new and subjects.fits["case#1"] == "fit 8"


def test_one_that_makes_its_own_parameters_begins_with_those_it_is_timed_with(subjects):
    reference: Any = SimpleNamespace(first={}, init=[], lean=False, construct_seed=7, draws="drawn")
    first: Any = SimpleNamespace(room=lambda any_layout: [], state=SimpleNamespace(seed=9))
    subjects.contacts = {name: Constructing(subjects.said, name) for name in ("candidate#2", "eager#2")}
    subjects.follow_seeds()
    subjects.begin(subjects.contacts, reference, first)
    assert ("begin", "candidate#2", 9, None) in subjects.said and ("begin", "eager#2", 7, "drawn") in subjects.said
