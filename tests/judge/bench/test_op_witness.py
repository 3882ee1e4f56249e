"""Operators that run beside the thread or the modes that count them are seen all the same."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from judge.bench.interpreting.op_traffic import counting_ops
from judge.bench.interpreting.op_witness import OpWitness
from judge.bench.interpreting.traffic import Ledger

X = torch.randn(8, 8)


def unseen(run: Callable[[], object]) -> list[str]:
    ledger, witness = Ledger(), OpWitness()
    with torch.no_grad(), counting_ops(ledger), witness.watching(ledger):
        run()
    return witness.unseen


def in_a_thread() -> None:
    thread = threading.Thread(target=lambda: torch.addmm(X[0], X, X))
    thread.start()
    thread.join()


def without_modes() -> None:
    with _disable_current_modes():
        torch.bmm(X[None], X[None])


class Other(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


def under_another() -> None:
    with _disable_current_modes(), Other():
        torch.mm(X, X)


def honest() -> None:
    lstm = torch.nn.LSTM(8, 8)
    torch.nn.functional.scaled_dot_product_attention(X[None, None], X[None, None], X[None, None])
    y = torch.softmax(torch.nn.functional.linear(lstm(X)[0], X), -1).mean().item()
    torch.tensor([y, 2.0], dtype=torch.float64).to(torch.float32).cumsum(0).tolist()
    with Other():
        torch.einsum("ij,jk->ik", X, X)
    with torch.profiler.record_function("named"):
        torch.exp(X)


def test_what_is_counted_is_seen():
    assert unseen(honest) == []


@pytest.mark.parametrize(
    ("run", "name"), [(in_a_thread, "aten::addmm"), (without_modes, "aten::bmm"), (lambda: stopped(), "torch.profiler")]
)
def test_what_is_not_counted_is_named(run, name):
    assert unseen(run) == [name]


@pytest.mark.parametrize(("times", "told"), [(256, []), (257, ["reading back more than 256 numbers"])])
def test_numbers_that_are_read_back_are_seen_in_every_thread(times, told):
    def run():
        thread = threading.Thread(target=lambda: [X[0, 0].item() for _ in range(times)])
        thread.start()
        thread.join()

    assert unseen(run) == told


def test_a_mode_in_place_of_the_counting_one_is_noticed():
    (told,) = unseen(under_another)
    assert "not the judge's" in told


def stopped() -> None:
    torch._C._autograd._disable_profiler()
