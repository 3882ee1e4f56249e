"""What a burst may take of the memory, and what it costs beside its calls."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace

import pytest
import torch

from judge.bench.exchange.nested import TensorMeta
from judge.bench.timing import bursts
from judge.bench.timing.bursts import Bursts
from judge.bench.timing.trusted import GPU
from judge.values import JudgeError

GIB = 1 << 30


def side(*, in_place: bool = True, device: str = "cuda:0", outputs: int = 1) -> SimpleNamespace:
    meta = TensorMeta.of(torch.empty(1 << 18))
    return SimpleNamespace(
        reference=SimpleNamespace(device=device),
        contact=SimpleNamespace(arena=SimpleNamespace(shared_in_place=in_place)),
        terms=dataclasses.replace(GPU, moved=4.8e6, nothing_us=1.3),
        _outputs=[meta] * outputs,
    )


@pytest.mark.parametrize(
    ("given", "allowed", "free"),
    [({}, 4 * GIB, 2 * GIB), ({"in_place": False}, GIB // 4, 2 * GIB), ({"device": "cpu"}, 4 * GIB, float("inf"))],
    ids=["shared", "through the host", "no GPU"],
)
def test_a_burst_takes_a_part_of_what_is_free(monkeypatch, given, allowed, free) -> None:
    monkeypatch.setattr(bursts, "free_bytes", lambda device: 16 * GIB)
    assert (Bursts._allowed(side(**given)), Bursts._free(side(**given))) == (allowed, free)


@pytest.mark.parametrize(
    ("wanted", "alone", "now", "calls"),
    [(96.0, 30, 100, 30), (96.0, 30, 7, 7), (8.0, 2, 2, 2), (96.0, 1, 1, None), (96.0, 1, 0, None)],
)
def test_a_burst_has_as_many_calls_as_fit(wanted, alone, now, calls) -> None:
    assert bursts.fitting(wanted, alone, now) == calls


def test_a_burst_is_not_read_off_the_two_calls_that_others_leave_room_for() -> None:
    """As seen on an H200 that seven other evaluations had filled: an honest call of 40 us was read as 83."""
    with pytest.raises(JudgeError, match="2 calls fit, 60 are wanted"):
        bursts.fitting(60.0, 200, 2)


def test_too_little_memory_for_a_burst_is_nobodys_fault() -> None:
    def full(calls: int) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory: no 512 MiB to share between processes")

    with pytest.raises(JudgeError, match=r"no memory for the trusted clock: .* 512 MiB"):
        bursts._open([SimpleNamespace(open=full)], 8)


def test_an_honest_call_of_a_few_microseconds_is_believed_and_a_lie_about_one_is_not() -> None:
    """As seen on an H200: bursts of 6.8 us, of which storing takes a part even if the baseline's do not show it."""
    burst_us = 6.1 + 3 * (1 << 20) / 4.8e6
    call_us = burst_us - Bursts.written_us(side(), "burst")
    terms = side().terms
    assert terms.believes(4.5, call_us)
    assert not terms.believes(1.0, call_us)
    assert not terms.believes(2.0, call_us)
    assert Bursts.written_us(side(outputs=3), "burst") == pytest.approx(3 * Bursts.written_us(side(), "burst"))


def test_the_shortest_honest_call_is_believed_where_a_graph_pays_five_microseconds_for_a_copy() -> None:
    """As seen on an H200: 8.4 us per replayed call of a kernel that claims 5.3 us, 2.9 us of it read around nothing."""
    one = side()
    one.terms = dataclasses.replace(GPU, moved=4.2e6, nothing_us=2.9, graph_stored_us=4.9)
    one._outputs = [TensorMeta.of(torch.empty(1 << 14))]
    call_us = 8.4 - Bursts.written_us(one, "graph_burst")
    assert one.terms.believes(5.3, call_us)
    assert not one.terms.believes(5.3 / 2, call_us)
    assert Bursts.written_us(one, "burst") < Bursts.written_us(one, "graph_burst")


def test_seven_tenths_of_a_time_are_not_believed() -> None:
    """As seen on an H200: 64.7 us claimed, 83.2 us in a burst with everything that it costs beside."""
    terms = dataclasses.replace(GPU, nothing_us=1.25, graph_stored_us=4.9)
    assert not terms.believes(64.7, 83.2 - 4.9)
    assert terms.believes(64.7 / 0.7, 83.2 - 1.2)
