"""A thread that goes on after forward is waited for while operators are counted, and told where it does not end."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import pytest
import torch

from judge.bench.interpreting import op_witness
from judge.bench.interpreting.op_traffic import counting_ops
from judge.bench.interpreting.traffic import Ledger
from judge.bench.subjects import watch as whole
from judge.bench.subjects.watch import GOES_ON, Counted


class Adapter:
    """As much of the interpreter's as a watch needs."""

    def __init__(self) -> None:
        self.counts, self.ledger = True, Ledger()
        self.reset, self.take_codes = self.ledger.clear, dict

    @contextmanager
    def counting(self):
        with counting_ops(self.ledger) as ledger:
            yield ledger


def unseen(forward) -> list[str]:
    watch = Counted(Adapter(), lambda message: None)
    with watch.during(count=True):
        watch.returned(forward())
    return watch.report(count=True)["unseen"]


@pytest.fixture
def end():
    """Set when the test is over."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture
def started():
    op_witness.warm_up()  # as in a child: the profiler's thread is there
    return lambda work: threading.Thread(target=work, daemon=True).start()


def test_what_a_thread_computes_after_forward_is_seen(started):
    returned = threading.Event()

    def work():
        returned.wait()
        torch.ones(8).exp()

    def forward():
        started(work)
        returned.set()

    assert "aten::exp" in unseen(forward)


def test_a_thread_that_does_not_end_is_told(started, end, monkeypatch):
    monkeypatch.setattr(whole, "GOES_ON_S", 0.03)
    assert GOES_ON in unseen(lambda: started(end.wait))


def test_one_that_was_there_before_or_has_ended_is_not(started, end):
    started(end.wait)
    assert unseen(lambda: started(lambda: None)) == []
