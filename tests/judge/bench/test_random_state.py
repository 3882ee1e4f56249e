"""Generators are put to a seed all together, and leave nothing behind for it."""

from __future__ import annotations

import random

import numpy
import torch

from judge.bench.foreign.random_state import reset


def drawn() -> tuple[float, float, float]:
    return float(torch.rand(1)), random.random(), float(numpy.random.rand())


def test_the_same_seed_draws_the_same_everywhere() -> None:
    state = random.getstate(), numpy.random.get_state(), torch.get_rng_state()
    try:
        reset(seed := 2**62 + 2**32 + 5)  # NumPy takes 32 bits
        first = drawn()
        assert drawn() != first
        reset(seed)
        assert drawn() == first
    finally:
        random.setstate(state[0])
        numpy.random.set_state(state[1])
        torch.set_rng_state(state[2])


def test_a_reset_queues_nothing_for_backends_that_are_not_in_use() -> None:
    state = torch.get_rng_state()
    waiting = len(torch.cuda._queued_calls)
    reset(1)
    assert len(torch.cuda._queued_calls) == waiting
    torch.set_rng_state(state)
