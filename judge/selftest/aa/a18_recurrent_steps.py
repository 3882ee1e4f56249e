# title: a recurrent network of 32 steps, two launches each, against itself
# size: launch-bound
# problem: recurrent_steps
# case: gpu
# devices: cuda
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def add_tanh(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + at, mask=at < n) + tl.load(y + at, mask=at < n)
    e = tl.exp(2.0 * tl.minimum(tl.maximum(v, -15.0), 15.0))
    tl.store(x + at, (e - 1.0) / (e + 1.0), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.entering = torch.nn.Linear(256, 256)
        self.kept = torch.nn.Linear(256, 256)

    def forward(self, x):
        h = torch.zeros_like(x[0])
        entered = self.entering(x)
        for step in range(x.shape[0]):
            kept = self.kept(h)
            n = kept.numel()
            add_tanh[(triton.cdiv(n, 1024),)](kept, entered[step], n, BLOCK=1024)
            h = kept
        return h
