# title: LayerNorm with the variance from centred values, then exact GELU
# problem: samples/layer_norm_gelu
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def _ln_gelu_fwd(X, W, B, Y, stride, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    X += row * stride
    Y += row * stride
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / N
    centred = tl.where(mask, x - mean, 0.0)
    var = tl.sum(centred * centred, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    w = tl.load(W + cols, mask=mask)
    b = tl.load(B + cols, mask=mask)
    h = centred * rstd * w + b
    y = 0.5 * h * (1.0 + tl.erf(h * 0.7071067811865476))
    tl.store(Y + cols, y, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        y = torch.empty_like(x)
        rows, width = x.shape
        block = triton.next_power_of_2(width)
        _ln_gelu_fwd[(rows,)](
            x,
            self.norm.weight,
            self.norm.bias,
            y,
            x.stride(0),
            width,
            self.norm.eps,
            BLOCK=block,
            num_warps=min(max(block // 256, 1), 8),
        )
        return y.view(shape)
