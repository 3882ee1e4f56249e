# title: a scratch buffer kept between calls and written anew each time
# problem: samples/log_sum_exp
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def row_peak(x, peak, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    best = tl.full((BLOCK,), -float("inf"), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        best = tl.maximum(best, tl.load(x + row * n + at, mask=at < n, other=-float("inf")))
    tl.store(peak + row, tl.max(best, 0) * scale)


@triton.jit
def row_lse(x, peak, out, n, scale, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    top = tl.load(peak + row)
    acc = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
        acc += tl.exp(v * scale - top)
    tl.store(out + row, top + tl.log(tl.sum(acc, 0)))


class ModelNew(torch.nn.Module):
    """Holds for a positive scale, which the constructor checks."""

    def __init__(self, scale):
        super().__init__()
        if scale <= 0:
            raise ValueError("scale must be positive")
        self.scale = scale
        self.peak = None

    def forward(self, x):
        rows, n = x.shape
        if self.peak is None or self.peak.shape[0] != rows or self.peak.device != x.device:
            self.peak = torch.empty(rows, device=x.device, dtype=torch.float32)
        out = torch.empty(rows, device=x.device, dtype=x.dtype)
        row_peak[(rows,)](x, self.peak, n, self.scale, BLOCK=512)
        row_lse[(rows,)](x, self.peak, out, n, self.scale, BLOCK=512)
        return out
