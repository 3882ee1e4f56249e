# title: RMSNorm of bfloat16 rows, four rows a program, weight kept in fp32 by prepare
# problem: samples/rms_norm_bf16
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def rms_norm_rows(x, w, y, rows, n, eps, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    c = tl.arange(0, BLOCK)
    inside = (r < rows)[:, None] & (c < n)[None, :]
    at = r[:, None] * n + c[None, :]
    v = tl.load(x + at, mask=inside, other=0).to(tl.float32)
    scale = 1.0 / tl.sqrt(tl.sum(v * v, axis=1) / n + eps)
    out = v * scale[:, None] * tl.load(w + c, mask=c < n, other=0.0)[None, :]
    tl.store(y + at, out.to(y.dtype.element_ty), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width, dtype=torch.bfloat16))
        self.eps = eps
        self.prepare()

    def prepare(self):
        self.wide = self.weight.detach().float()

    def forward(self, x):
        rows, n = x.shape
        y = torch.empty_like(x)
        wide = self.wide.to(x.device)
        rms_norm_rows[(triton.cdiv(rows, 4),)](
            x, wide, y, rows, n, self.eps, ROWS=4, BLOCK=triton.next_power_of_2(n), num_warps=8
        )
        return y
