"""Out-of-bounds accesses end in a sentence, not in a dead process."""

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

from judge.bench.interpreting.bounds import OutOfBounds


@triton.jit
def copy(x, out, n, BLOCK: tl.constexpr, MASKED: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if MASKED:
        tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)
    else:
        v = tl.load(x + i, mask=i < n)
        tl.store(out + i, v)


@triton.jit
def load_all(x, out, BLOCK: tl.constexpr, SHIFT: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i - SHIFT))


@triton.jit
def count_all(total, BLOCK: tl.constexpr):
    tl.atomic_add(total + tl.arange(0, BLOCK), 1)


@triton.jit
def inner(x, i):
    return tl.load(x + i)


@triton.jit
def outer(x, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(out + i, inner(x, i))


@triton.jit
def block_copy(x, out, n, BLOCK: tl.constexpr, CHECK: tl.constexpr):
    src = tl.make_block_ptr(x, (n,), (1,), (0,), (BLOCK,), (0,))
    dst = tl.make_block_ptr(out, (n,), (1,), (0,), (BLOCK,), (0,))
    if CHECK:
        tl.store(dst, tl.load(src, boundary_check=(0,)), boundary_check=(0,))
    else:
        tl.store(dst, tl.load(src))


@triton.jit
def descriptor_copy(src, dst, M: tl.constexpr, N: tl.constexpr):
    dst.store([0, 0], src.load([0, 0]) + 1.0)


@triton.jit
def through_table(table, out, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    x = tl.load(table).to(tl.pointer_type(tl.float32))
    tl.store(out + i, tl.load(x + i))


def check_unmasked_store_names_kernel_line_program_and_distance(adapter):
    x, out = torch.rand(1000), torch.zeros(1000)
    with pytest.raises(OutOfBounds) as caught:
        copy[(4,)](x, out, 1000, BLOCK=256, MASKED=False)
    message = str(caught.value)
    for part in ("store", "kernel copy", "bounds.py:", "(3, 0, 0)", "24 of 256", "4 bytes past the end of out"):
        assert part in message, message


def check_masked_tail_is_fine(adapter):
    x, out = torch.rand(1000), torch.zeros(1000)
    copy[(4,)](x, out, 1000, BLOCK=256, MASKED=True)
    assert torch.equal(x, out)


def check_load_before_the_start_is_named(adapter):
    x, out = torch.rand(64), torch.zeros(64)
    with pytest.raises(OutOfBounds, match=r"load .* 12 bytes before x"):
        load_all[(1,)](x, out, BLOCK=64, SHIFT=3)


def check_atomics_are_checked(adapter):
    with pytest.raises(OutOfBounds, match="atomic"):
        count_all[(1,)](torch.zeros(60, dtype=torch.int32), BLOCK=64)


def check_accesses_in_nested_functions_are_checked(adapter):
    with pytest.raises(OutOfBounds, match="kernel outer"):
        outer[(1,)](torch.rand(30), torch.zeros(32), BLOCK=32)


def check_a_view_may_use_its_whole_storage_but_no_more(adapter):
    x, out = torch.rand(100), torch.zeros(64)
    load_all[(1,)](x[10:], out, BLOCK=64, SHIFT=10)
    assert torch.equal(out, x[:64])
    with pytest.raises(OutOfBounds):
        load_all[(1,)](x[50:], out, BLOCK=64, SHIFT=0)


def check_block_pointers_are_checked_or_refused(adapter):
    x, out = torch.rand(60), torch.zeros(60)
    if triton.__version__.startswith("3.9"):
        with pytest.raises(Exception, match="Block pointers have been removed"):
            block_copy[(1,)](x, out, 60, BLOCK=64, CHECK=True)
        return
    block_copy[(1,)](x, out, 60, BLOCK=64, CHECK=True)
    assert torch.equal(x, out)
    with pytest.raises(OutOfBounds, match="4 of 64"):
        block_copy[(1,)](x, out, 60, BLOCK=64, CHECK=False)


def check_descriptors_know_their_tensor(adapter):
    x, out = torch.rand(24, 32), torch.zeros(24, 32)
    src = TensorDescriptor(x, x.shape, x.stride(), [32, 32])
    dst = TensorDescriptor(out, out.shape, out.stride(), [32, 32])
    descriptor_copy[(1,)](src, dst, M=32, N=32)
    assert torch.equal(out, x + 1)
    lying = TensorDescriptor(x, [32, 32], x.stride(), [32, 32])
    with pytest.raises(OutOfBounds, match="src"):
        descriptor_copy[(1,)](lying, dst, M=32, N=32)


def check_tensors_passed_by_address_are_legal(adapter):
    x, out = torch.rand(64), torch.zeros(64)
    table = torch.tensor([x.data_ptr()], dtype=torch.int64)
    through_table[(1,)](table, out, BLOCK=64)
    assert torch.equal(out, x)


def check_a_wild_pointer_does_not_kill_the_process(adapter):
    table, out = torch.tensor([1 << 40], dtype=torch.int64), torch.zeros(64)
    with pytest.raises(OutOfBounds):
        through_table[(1,)](table, out, BLOCK=64)
