# title: rows times an expanded scale, by its strides
# problem: expanded_scale
# expect: pass
#
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, scale, out, columns, x_row, scale_row, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    inside = column < columns
    value = tl.load(x + row * x_row + column, mask=inside) * tl.load(scale + row * scale_row + column, mask=inside)
    tl.store(out + row * columns + column, value / (1 + tl.exp(-value)), mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x, scale):
        x = x if x.stride(1) == 1 else x.contiguous()
        scale = scale if scale.stride(1) == 1 else scale.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, columns, device=x.device)
        block = triton.next_power_of_2(columns)
        scaled[(rows,)](x, scale, out, columns, x.stride(0), scale.stride(0), BLOCK=block)
        return out
