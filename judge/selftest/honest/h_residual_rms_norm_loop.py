# title: RMSNorm by a loop over column blocks that stores the sum for its second sweep
# problem: samples/residual_rms_norm
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def rms_two_sweeps(x, res, w, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lane = tl.arange(0, BLOCK)
    squares = tl.zeros((BLOCK,), tl.float32)
    for start in range(0, n, BLOCK):
        at = start + lane
        h = tl.load(x + row * n + at, mask=at < n, other=0.0) + tl.load(res + row * n + at, mask=at < n, other=0.0)
        squares += h * h
        tl.store(y + row * n + at, h, mask=at < n)
    scale = 1.0 / tl.sqrt(tl.sum(squares, 0) / n + eps)
    tl.debug_barrier()  # the second sweep reads what other threads have stored
    for start in range(0, n, BLOCK):
        at = start + lane
        h = tl.load(y + row * n + at, mask=at < n)
        tl.store(y + row * n + at, h * scale * tl.load(w + at, mask=at < n), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.eps = eps
        self.weight = torch.nn.Parameter(torch.rand(width) + 0.5)

    def forward(self, x, residual):
        x, residual = x.contiguous(), residual.contiguous()
        y = torch.empty_like(x)
        rms_two_sweeps[(x.shape[0],)](x, residual, self.weight, y, x.shape[1], self.eps, BLOCK=256, num_warps=4)
        return y
