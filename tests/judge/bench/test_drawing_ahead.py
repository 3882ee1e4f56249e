"""A referee that nobody listens to draws its next questions: it must not wait for a reader, with the GPU in hand."""

from __future__ import annotations

import os
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.exchange.wire import Channel, WireTimeout
from judge.bench.foreign.loading import load_problem
from judge.bench.foreign.whereabouts import IMPORT
from judge.bench.judging.asking import Questions
from judge.bench.judging.reference import Reference
from judge.bench.processes.child import Assignment
from tests.judge.bench_problems import PROBLEM

LINE = "        return torch.nn"  # of forward
CHATTY = PROBLEM.replace(LINE, f"        import os; os.write(1, b'HEARD ')\n{LINE}")


def test_it_neither_tells_nor_prints_meanwhile(tmp_path: Path, monkeypatch, capfd) -> None:
    runner, theirs = Channel.pair()
    boss = Channel(theirs)
    assignment = cast(Assignment, SimpleNamespace(device="cpu", boss=boss))
    cache = RefereeCache(assignment)
    cache.reference = Reference(load_problem(CHATTY, None, tmp_path, cache.whereabouts), "cpu")
    assert {"inside": IMPORT} in runner.pump()  # a referee at work does tell
    drawn: list[Any] = []

    def next_assignment(timeout: float | None) -> dict[str, Any]:
        drawn.append(cache.questions)
        return {}

    monkeypatch.setattr(boss, "receive", next_assignment)
    monkeypatch.setattr(cache, "_give_back", lambda: None)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 36, 1 << 36))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda *_: None)
    monkeypatch.setattr(cache, "device", "cuda:0")
    monkeypatch.setattr("judge.bench.deciding.referee_cache.DRAWING", 60.0)
    monkeypatch.setattr("judge.bench.deciding.referee_cache.replace", lambda assignment, **changes: assignment)
    assert cache.next(assignment) is assignment
    assert len(drawn[0]._drawn) > 2
    with pytest.raises(WireTimeout):
        runner.receive(0.05)
    os.write(1, b"again")
    assert capfd.readouterr().out == "again"
    with cache.whereabouts.inside(IMPORT):
        pass
    assert runner.pump() == [{"inside": IMPORT}, {"inside": ""}]
    for end in (runner, boss):
        end.close()


class Evaluation:
    """It refers to itself, as a referee does by its lock."""

    def __init__(self) -> None:
        self.itself = self


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_an_evaluation_that_is_over_holds_no_memory_while_its_referee_waits(monkeypatch, device) -> None:
    boss = SimpleNamespace(send=None, fileno=lambda: 0, receive=lambda timeout: {}, take_fds=list)
    assignment: Any = SimpleNamespace(device=device, boss=boss)
    cache = RefereeCache(assignment)
    over = weakref.ref(Evaluation())
    held: list[bool] = []
    monkeypatch.setattr("judge.bench.deciding.referee_cache.replace", lambda assignment, **changes: assignment)
    monkeypatch.setattr(cache, "_draw_until", lambda fd: None)
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda: 5 << 30)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda: 5 << 30 if over() else 0)
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.append(over() is not None))
    cache.next(assignment)
    assert over() is None and held == ([] if device == "cpu" else [False])


def test_questions_are_drawn_while_a_child_works_and_no_longer(tmp_path: Path, monkeypatch) -> None:
    runner, theirs = Channel.pair()
    assignment = cast(Assignment, SimpleNamespace(device="cpu", boss=Channel(theirs)))
    cache = RefereeCache(assignment)
    cache.reference = Reference(load_problem(PROBLEM, None, tmp_path, cache.whereabouts), "cpu")
    waits: list[bool] = []

    class Contact:
        @property
        def has_answered(self) -> bool:
            waits.append(len(waits) == 3)
            return waits[-1]

    questions = Questions(cache.reference)
    contact = cast(Any, Contact())
    cache.draw_beside(contact, questions)
    assert not waits, "a processor has other things to do"
    monkeypatch.setattr(cache, "device", "cuda:0")
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 28, 1 << 36))
    cache.draw_beside(contact, questions)
    assert not waits, "others need the memory"
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda: (1 << 36, 1 << 36))
    first = questions.first(None)
    cache.draw_beside(contact, questions)
    assert waits == [False, False, False, True] and len(questions._drawn) == 3
    drawn = [question for _, question in questions._drawn]
    assert questions.first(None) is first, "it is not drawn again"
    assert [question for _, question in questions.rounds()][:3] == drawn
    cache.reference.plan = cast(Any, SimpleNamespace(lean=True))
    waits.clear()
    cache.draw_beside(contact, questions)
    assert not waits, "one question at a time"
    runner.close()
    assignment.boss.close()
