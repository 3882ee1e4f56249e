# title: group statistics by one kernel, normalisation a channel at a time by another
# problem: group_norm
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def group_stats(x, mean, rstd, size, eps, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    s = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, size, BLOCK):
        s += tl.load(x + pid * size + at + lane, mask=at + lane < size, other=0.0)
    m = tl.sum(s, 0) / size
    q = tl.zeros((BLOCK,), tl.float32)
    for at in range(0, size, BLOCK):
        d = tl.load(x + pid * size + at + lane, mask=at + lane < size, other=m) - m
        q += d * d
    tl.store(mean + pid, m)
    tl.store(rstd + pid, 1.0 / tl.sqrt(tl.sum(q, 0) / size + eps))


@triton.jit
def normalise(x, mean, rstd, w, b, y, channels, per_group, area, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    channel = plane % channels
    group = plane // per_group
    gain = tl.load(rstd + group) * tl.load(w + channel)
    shift = tl.load(b + channel) - tl.load(mean + group) * gain
    for start in range(0, area, BLOCK):
        at = start + tl.arange(0, BLOCK)
        h = tl.load(x + plane * area + at, mask=at < area, other=0.0) * gain + shift
        tl.store(y + plane * area + at, h / (1.0 + tl.exp(-h)), mask=at < area)


class ModelNew(torch.nn.Module):
    def __init__(self, groups, channels):
        super().__init__()
        self.norm = torch.nn.GroupNorm(groups, channels)

    def forward(self, x):
        batch, channels, height, width = x.shape
        groups, area = self.norm.num_groups, height * width
        per_group = channels // groups
        mean = torch.empty(batch * groups, device=x.device, dtype=torch.float32)
        rstd = torch.empty_like(mean)
        y = torch.empty_like(x)
        group_stats[(batch * groups,)](x, mean, rstd, per_group * area, self.norm.eps, BLOCK=512)
        normalise[(batch * channels,)](
            x, mean, rstd, self.norm.weight, self.norm.bias, y, channels, per_group, area, BLOCK=1024
        )
        return y
