"""Operators are left out of the counts only within what counts for them."""

from __future__ import annotations

import torch

from judge.bench.interpreting import op_traffic
from judge.bench.interpreting.op_traffic import counting_ops
from judge.bench.interpreting.traffic import Ledger


def test_a_flag_alone_pauses_nothing(monkeypatch):
    ledger, x = Ledger(), torch.ones(4)

    def launch() -> None:
        with ledger.pause():
            x.neg()

    with counting_ops(ledger):
        ledger.paused = True
        x.exp()
        ledger.paused = False
        launch()
        monkeypatch.setattr(op_traffic, "_PAUSER", launch.__code__)
        launch()
    assert [row.name for row in ledger.kernels] == ["aten.exp", "aten.neg"]


def test_each_launch_is_told_when_it_is_counted():
    ledger, told = Ledger(), []
    ledger.tell = told.append
    with counting_ops(ledger):
        torch.ones(4).exp()
        ledger.kernels.clear()
    assert told[-1].name == "aten.exp" and not ledger.kernels
