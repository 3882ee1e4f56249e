# title: linear recurrence step by step, one lane a row
# problem: linear_recurrence
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def step_rows(a_ptr, x_ptr, h_ptr, rows, n, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = row < rows
    h = tl.zeros((BLOCK,), dtype=tl.float32)
    for t in range(n):
        a = tl.load(a_ptr + row * n + t, mask=mask, other=0.0)
        x = tl.load(x_ptr + row * n + t, mask=mask, other=0.0)
        h = h / (1.0 + tl.exp(-a)) + x
        tl.store(h_ptr + row * n + t, h, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, a, x):
        rows, n = x.shape
        h = x.new_empty(rows, n)
        step_rows[(triton.cdiv(rows, 32),)](a, x, h, rows, n, BLOCK=32, num_warps=1)
        return h
