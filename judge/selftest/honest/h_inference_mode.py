# title: forward in inference mode, where operators come undivided
# problem: row_scale
# expect: pass
#
import torch
import triton
import triton.language as tl


@triton.jit
def scaled(x, w, out, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + c, mask=c < n, other=0.0)
    y = v * tl.rsqrt(tl.sum(v * v, 0) / n + 1e-5) * tl.load(w + c, mask=c < n)
    tl.store(out + row * n + c, y, mask=c < n)


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))

    @torch.inference_mode()
    def forward(self, x):
        x = x.t().contiguous().t().contiguous().to(torch.float32)
        out = torch.empty_like(x)
        scaled[(x.shape[0],)](x, self.weight, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
        return out
