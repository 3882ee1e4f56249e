# title: rows sorted downwards in registers, the first four stored
# problem: top_values
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def sort_and_cut(x_ptr, out_ptr, n, K: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * n + cols, mask=cols < n, other=float("-inf"))
    x = tl.sort(x, descending=True)
    tl.store(out_ptr + row * K + cols, x, mask=cols < K)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty((rows, 4), device=x.device, dtype=x.dtype)
        sort_and_cut[(rows,)](x, out, n, K=4, BLOCK=triton.next_power_of_2(n))
        return out
