# title: rows sorted downwards in registers, several a program, the first four stored
# problem: top_values
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def sort_and_cut(x_ptr, out_ptr, rows, n, K: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    cols = tl.arange(0, BLOCK)[None, :]
    x = tl.load(x_ptr + row * n + cols, mask=(row < rows) & (cols < n), other=float("-inf"))
    x = tl.sort(x, dim=1, descending=True)
    tl.store(out_ptr + row * K + cols, x, mask=(row < rows) & (cols < K))


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty((rows, 4), device=x.device, dtype=x.dtype)
        block = triton.next_power_of_2(n)
        per_program = 32 if block <= 128 else 4
        sort_and_cut[(triton.cdiv(rows, per_program),)](x, out, rows, n, K=4, ROWS=per_program, BLOCK=block)
        return out
