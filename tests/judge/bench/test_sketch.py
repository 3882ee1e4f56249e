"""Tensors by their layout: large ones are shaped and never computed, small ones keep their values."""

from __future__ import annotations

import pytest
import torch

from judge.bench.exchange.arenas import Slot, host_arena
from judge.bench.exchange.nested import TensorMeta
from judge.bench.exchange.sketch import SketchArena
from judge.bench.exchange.uncomputed import LARGE, Uncomputed, blank

SIDE = 1 << 14


@pytest.fixture
def mode():
    with Uncomputed() as mode:
        yield mode


def test_a_large_product_has_its_shape_and_costs_nothing(mode):
    x = torch.randn(SIDE, SIDE)
    y = torch.nn.functional.softmax(x @ x.t(), dim=-1).sum(dim=0)
    assert y.shape == (SIDE,) and mode.skipped >= 3


def test_large_results_read_as_zero(mode):
    assert float(torch.ones(SIDE, SIDE)[5, 7]) == 0.0


def test_small_tensors_are_computed(mode):
    lengths = torch.tensor([3, 5, 4])
    assert int(lengths.max()) == 5 and (lengths * 2).tolist() == [6, 10, 8] and mode.skipped == 0


def test_small_tensors_that_make_a_large_one_are_not(mode):
    x = torch.rand(2048)
    assert (x[:, None] * x[None, :]).shape == (2048, 2048) and mode.skipped == 1


def test_writing_in_place_leaves_a_large_tensor_as_it_is(mode):
    x = torch.empty(SIDE, SIDE)
    assert x.normal_() is x and x.add_(1).mul_(2) is x
    assert float(x[0, 0]) == 0.0


def test_views_stay_views(mode):
    x = torch.empty(SIDE, SIDE)
    assert x.t().data_ptr() == x.data_ptr() and x[1:].data_ptr() - x.data_ptr() == 4 * SIDE


def test_layouts_are_as_computed():
    def run() -> list[tuple[int, ...]]:
        x = torch.empty(8, 16, 64, 64).to(memory_format=torch.channels_last)
        y = torch.nn.functional.conv2d(x, torch.empty(16, 16, 3, 3), padding=1)
        return [x.stride(), torch.cat([x, x], 1).stride(), x.permute(1, 0, 2, 3).contiguous().stride(), y.shape]

    real = run()
    with Uncomputed():
        assert run() == real


def test_an_impossible_operation_says_so_as_ever(mode):
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        torch.empty(SIDE, SIDE) @ torch.empty(7, 7)


def test_in_place_operators_with_two_results_return_both(mode):
    x = torch.empty(SIDE, SIDE)
    values, indices = torch.empty(SIDE, 2), torch.empty(SIDE, 2, dtype=torch.int64)
    found = torch.topk(x, 2, out=(values, indices))
    assert found[0] is values and found[1] is indices


def test_blank_memory_is_aligned_for_vector_loads():
    tensor = blank((LARGE, 2), (2, 1), torch.float16)
    assert tensor.data_ptr() % 16 == 0 and tensor.dtype is torch.float16 and not tensor.any()


def test_an_arena_of_sketches_gives_large_tensors_without_carrying_them():
    arena, _ = host_arena(1 << 16, "cpu")
    sketched = SketchArena(arena)
    large = TensorMeta("float32", (SIDE, SIDE), (1, SIDE))
    small = TensorMeta("int64", (4,), (1,))
    arena.put(Slot(2048, small), torch.arange(4))
    assert sketched.fetch(Slot(0, large)).stride() == (1, SIDE)
    assert sketched.fetch(Slot(2048, small)).tolist() == [0, 1, 2, 3]
