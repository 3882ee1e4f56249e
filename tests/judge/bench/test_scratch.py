"""Copies of a kernel's arguments: same layout, same sharing, and the originals never change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch

from judge.bench.compiling.scratch import Scratch

PLENTY = 1 << 30


@dataclass
class Descriptor:
    base: torch.Tensor
    block_shape: list[int]


def test_what_runs_on_the_copies_leaves_the_originals_alone():
    x, y = torch.arange(8.0), torch.zeros(8)
    scratch = Scratch((x,), {"y": y}, PLENTY)
    scratch.args[0].add_(1)
    scratch.kwargs["y"].fill_(7)
    assert scratch.copied and torch.equal(x, torch.arange(8.0)) and not y.any()


def test_restoring_undoes_an_accumulation():
    x = torch.arange(8.0)
    scratch = Scratch((x,), {}, PLENTY)
    for _ in range(3):
        scratch.restore()
        scratch.args[0].add_(x)
        scratch.note_written()
    assert torch.equal(scratch.args[0], 2 * x)


def test_only_written_memory_is_restored():
    read, written = torch.ones(4), torch.ones(4)
    scratch = Scratch((read, written), {}, PLENTY)
    scratch.args[1].zero_()
    scratch.note_written()
    scratch.args[0].fill_(5)  # nobody does; it shows that this one is left alone
    scratch.restore()
    assert scratch.args[0].tolist() == [5] * 4 and scratch.args[1].tolist() == [1] * 4


def test_arguments_that_share_memory_still_do():
    x = torch.arange(12.0)
    scratch = Scratch((x, x[4:], x.view(3, 4).t()), {}, PLENTY)
    whole, tail, turned = scratch.args
    tail[0] = 99
    assert whole[4] == 99 and turned[0, 1] == 99 and x[4] == 4
    assert turned.stride() == (1, 4) and not turned.is_contiguous()


def test_two_parts_of_one_storage_do_not_cost_what_lies_between():
    storage = torch.zeros(1 << 20, dtype=torch.uint8)
    scratch = Scratch((storage[:16], storage[-16:]), {}, 4096)
    assert scratch.copied and scratch.args[0].shape == scratch.args[1].shape == (16,)


def test_alignment_is_the_originals():
    x = torch.zeros(4096)
    for start in (0, 1, 4, 33):
        scratch = Scratch((x[start:],), {}, PLENTY)
        assert (scratch.args[0].data_ptr() - x[start:].data_ptr()) % 512 == 0


def test_descriptors_tuples_and_numbers_are_carried():
    x = torch.ones(4)
    descriptor = Descriptor(x, [2])
    scratch = Scratch(((x, 3), descriptor, 5, None), {"eps": 0.1}, PLENTY)
    (inner, three), twin, five, nothing = scratch.args
    twin.block_shape = [4]
    twin.base.zero_()
    assert descriptor.block_shape == [2] and x.sum() == 4 and not inner.any(), "base and x are one tensor"
    assert (three, five, nothing, scratch.kwargs) == (3, 5, None, {"eps": 0.1})


def test_without_room_the_tensors_themselves_are_used():
    x = torch.ones(1024)
    scratch = Scratch((x,), {}, 100)
    scratch.note_written()
    scratch.restore()
    assert not scratch.copied and scratch.args[0] is x


def test_empty_and_expanded_tensors_are_fine():
    empty: Any = torch.empty(0, 4)
    wide = torch.ones(1, 4).expand(1000, 4)
    scratch = Scratch((empty, wide), {}, PLENTY)
    assert scratch.args[0].shape == (0, 4) and scratch.args[1].shape == (1000, 4)
    assert scratch.args[1].stride() == (0, 1) and torch.equal(scratch.args[1], wide)
