# title: group normalisation with a whole group in one block
# problem: group_norm
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def group_norm_silu(x_ptr, w_ptr, b_ptr, y_ptr, groups, per_group, area, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    group = pid % groups
    size = per_group * area
    offs = tl.arange(0, BLOCK)
    mask = offs < size
    x = tl.load(x_ptr + pid * size + offs, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / size
    diff = tl.where(mask, x - mean, 0.0)
    var = tl.sum(diff * diff, axis=0) / size
    channel = group * per_group + offs // area
    w = tl.load(w_ptr + channel, mask=mask, other=0.0)
    b = tl.load(b_ptr + channel, mask=mask, other=0.0)
    h = diff * tl.rsqrt(var + eps) * w + b
    tl.store(y_ptr + pid * size + offs, h * tl.sigmoid(h), mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = torch.nn.GroupNorm(groups, channels)

    def forward(self, x):
        batch, channels, height, width = x.shape
        groups = self.norm.num_groups
        per_group = channels // groups
        y = torch.empty_like(x)
        block = triton.next_power_of_2(per_group * height * width)
        group_norm_silu[(batch * groups,)](
            x, self.norm.weight, self.norm.bias, y, groups, per_group, height * width, self.norm.eps,
            BLOCK=block, num_warps=8,
        )  # fmt: skip
        return y
