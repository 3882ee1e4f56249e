# title: rows over their largest magnitude, one block a row
# problem: samples/absmax_scale
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def absmax_scale_kernel(x_ptr, y_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    x = tl.load(x_ptr + row_idx * n_cols + col_offsets, mask=mask, other=0.0)
    amax = tl.max(tl.abs(x), axis=0)
    y = x / (amax + 1e-6) * 127.0
    tl.store(y_ptr + row_idx * n_cols + col_offsets, y, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()

    def forward(self, x):
        assert x.is_contiguous(), "Input must be contiguous"
        n_rows, n_cols = x.shape
        y = torch.empty_like(x)
        BLOCK_SIZE = triton.next_power_of_2(n_cols)
        absmax_scale_kernel[(n_rows,)](x, y, n_cols, BLOCK_SIZE=BLOCK_SIZE)
        return y
