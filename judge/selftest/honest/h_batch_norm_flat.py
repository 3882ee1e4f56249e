# title: batch normalisation from running statistics over flat memory
# problem: batch_norm_eval
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def bn_relu(x, mean, var, w, b, y, total, channels, area, eps, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    c = at // area % channels
    v = tl.load(x + at, mask=inside)
    v = (v - tl.load(mean + c, mask=inside)) / tl.sqrt(tl.load(var + c, mask=inside) + eps)
    v = v * tl.load(w + c, mask=inside) + tl.load(b + c, mask=inside)
    tl.store(y + at, tl.maximum(v, 0.0), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(channels)
        self.eval()

    def forward(self, x):
        norm = self.norm
        y = torch.empty_like(x)
        total, area = x.numel(), x.shape[2] * x.shape[3]
        bn_relu[(triton.cdiv(total, 1024),)](
            x, norm.running_mean, norm.running_var, norm.weight, norm.bias, y, total, x.shape[1], area, norm.eps,
            BLOCK=1024,
        )  # fmt: skip
        return y
