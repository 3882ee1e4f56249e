"""Large draws that are read in place of drawn: the same model, the same generator, and nobody can change them."""

from __future__ import annotations

import mmap
import os
import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from judge.bench.exchange import known_draws
from judge.bench.exchange.arenas import Arenas, host_arena
from judge.bench.exchange.contact import Contact, Deadline
from judge.bench.exchange.known_draws import KnownDraws, read
from judge.bench.exchange.wire import Channel
from judge.bench.foreign import random_state
from judge.bench.foreign.loading import load_problem
from judge.bench.judging.reference import Reference
from judge.bench.subjects.subject import Subject
from judge.values import DEFAULT_POLICY
from tests.judge.rounds_bench import problem

SEED = 11
LAYERS = """self.a = torch.nn.Linear(24, 24)
self.few = torch.nn.Linear(2, 2)
self.b = torch.nn.Linear(24, 24)
self.plain = torch.rand(3)"""


@pytest.fixture(autouse=True)
def small_draws_count(monkeypatch):
    """A KiB is large here; the generator is left as it was."""
    monkeypatch.setattr(known_draws, "LEAST_BYTES", 1 << 10)
    state = torch.get_rng_state()
    yield
    torch.set_rng_state(state)


class Layers(torch.nn.Module):
    """All that draws in some way, in an order; `first` turns it around."""

    def __init__(self, first: int = 1) -> None:
        super().__init__()
        makers = [
            lambda: torch.nn.Linear(24, 40),
            lambda: torch.nn.Linear(2, 2),
            lambda: torch.nn.Conv2d(3, 24, 5, dtype=torch.bfloat16),
            lambda: torch.nn.LSTM(16, 24),
            lambda: torch.nn.Embedding(30, 20).double(),
            lambda: torch.nn.MultiheadAttention(32, 4),
        ]
        self.layers = torch.nn.ModuleList(make() for make in makers[::first])
        self.cut = torch.nn.Parameter(torch.nn.init.trunc_normal_(torch.empty(40, 30), std=0.02))
        self.turned = torch.empty(40, 30).t().normal_()  # not contiguous
        self.own = torch.empty(40, 30).uniform_(generator=torch.Generator().manual_seed(3))
        self.whole = torch.empty(40, 30, dtype=torch.int64).random_(5)
        self.conjugate = torch.empty(40, 30, dtype=torch.complex64).conj().normal_()
        self.mean = self.cut.mean() + torch.rand(4)
        self.last = torch.empty(40, 30).uniform_(-1, to=2)


def values(model: Layers) -> list[torch.Tensor]:
    plain = [model.turned, model.own, model.whole, model.conjugate, model.mean, model.last]
    return [*(one.detach() for one in model.state_dict().values()), *plain]


def made(first: int = 1) -> tuple[list[torch.Tensor], torch.Tensor]:
    random_state.reset(SEED)
    with torch.no_grad():
        found = values(Layers(first))
    return found, torch.get_rng_state()


def kept() -> KnownDraws:
    draws = KnownDraws()
    with draws.kept():
        made()
    return draws


def read_back(draws: KnownDraws, first: int = 1) -> tuple[list[torch.Tensor], torch.Tensor]:
    with read(draws.rows, [os.dup(fd) for fd in draws.fds]):
        return made(first)


def same(one: tuple[list[torch.Tensor], torch.Tensor], other: tuple[list[torch.Tensor], torch.Tensor]) -> bool:
    pairs = zip((*one[0], one[1]), (*other[0], other[1]), strict=True)
    return all(left.dtype == right.dtype and torch.equal(left, right) for left, right in pairs)


@pytest.mark.parametrize("first", [1, -1], ids=["same order", "other order"])
def test_a_model_and_the_generator_are_as_if_all_had_been_drawn(first):
    expected = made(first)
    draws = kept()
    assert same(made(), read_back(draws)) and same(expected, read_back(draws, first))
    assert len(draws.rows) == 9, "large draws are kept, of float tensors and torch's own generator"


def test_what_is_kept_is_read_and_not_drawn():
    draws = kept()
    *_, truncated, last = draws.rows
    draws.rows[last] = draws.rows[truncated]  # of the same shape
    (found, _), (expected, _) = read_back(draws), made()
    wrong = [not torch.equal(one, other) for one, other in zip(found, expected, strict=True)]
    assert wrong[-1] and not any(wrong[:-1])


def test_of_a_large_model_the_first_draws_are_kept(monkeypatch):
    monkeypatch.setattr(known_draws, "MOST_BYTES", 30_000)
    draws = kept()
    assert 0 < len(draws.rows) < 6 and os.fstat(draws.fds[0]).st_size <= 30_000
    assert same(made(), read_back(draws))
    monkeypatch.setattr(known_draws, "MOST", 1)
    assert len(kept().rows) == 1


def test_nobody_can_change_what_is_kept():
    draws = kept()
    (fd,) = draws.fds
    again = os.open(f"/proc/self/fd/{fd}", os.O_RDWR)
    for one in (fd, again):
        for change in (lambda fd: os.pwrite(fd, b"x", 0), lambda fd: os.ftruncate(fd, 0), lambda fd: mmap.mmap(fd, 64)):
            with pytest.raises(PermissionError):
                change(one)
    os.close(again)
    assert same(made(), read_back(draws))


def test_its_memory_is_given_back_and_so_are_descriptors_that_were_sent():
    draws = kept()
    (fd,) = draws.fds
    sent = os.dup(fd)
    with read(draws.rows, [sent]):
        os.fstat(sent)
    del draws
    for closed in (fd, sent):
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(closed)


def test_afterwards_torch_draws_whatever_foreign_code_has_kept():
    stood = torch.Tensor.normal_, torch.Tensor.uniform_
    draws, functions = KnownDraws(), []
    with draws.kept():
        functions.append(torch.Tensor.normal_)
        torch.Tensor.uniform_ = stood[1]  # somebody's own
    assert (torch.Tensor.normal_, torch.Tensor.uniform_) == stood
    functions[0](torch.empty(1000))
    assert not draws.rows and not draws.fds


def test_what_torch_refuses_is_refused():
    draws = KnownDraws()
    leaf = torch.nn.Parameter(torch.zeros(1000))
    with draws.kept(), pytest.raises(RuntimeError, match="leaf Variable"):
        leaf.uniform_()
    random_state.reset(SEED)
    before = torch.get_rng_state()
    with torch.no_grad(), draws.kept():
        leaf.uniform_()
    torch.set_rng_state(before)
    with read(draws.rows, [os.dup(fd) for fd in draws.fds]):
        with pytest.raises(RuntimeError, match="leaf Variable"):
            leaf.uniform_()
        kept_for_backward = torch.nn.Parameter(torch.ones(1000))
        other = torch.zeros(1000)
        product = (kept_for_backward * other).sum()
        other.uniform_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.backward()


def test_a_child_constructs_from_what_the_referee_drew(tmp_path: Path):
    loaded = load_problem(problem("return self.b(self.a(x[0]))", init=LAYERS), None, tmp_path)
    reference = Reference(loaded, "cpu", DEFAULT_POLICY)
    assert len(reference.draws.rows) == 2
    ours, theirs = socket.socketpair()
    contact = Contact("candidate", ours.detach(), Deadline(5, 5), "cpu", Arenas())
    contact._arena, fd = host_arena(1 << 16, "cpu")
    os.close(fd)
    link = Channel(theirs)
    contact.begin_to_construct([], reference.construct_seed, reference.draws)
    child: Any = SimpleNamespace(
        link=link, model_class=loaded.Model, policy=DEFAULT_POLICY, device="cpu", _values=lambda *_, **__: [],
        _synchronize=lambda: None, _state=list,
    )  # fmt: skip
    told = link.receive(5)
    Subject._construct(child, told)
    assert torch.equal(child.model.plain, reference.model.plain)
    assert all(torch.equal(child.model.state_dict()[name], value) for name, value in reference.first.items())
    contact.begin_to_construct([], reference.construct_seed, reference.draws)
    told = link.receive(5)
    told["draws"] = dict.fromkeys(told["draws"], 0)
    Subject._construct(child, told)
    assert not torch.equal(child.model.b.weight, reference.model.b.weight), "it reads"
    contact.hang_up()
    link.close()
