# title: depthwise causal convolution, taps unrolled
# problem: causal_conv1d
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def causal_conv1d_silu(x, w, b, y, channels, length, TAPS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    channel = row % channels
    t = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK,), tl.float32) + tl.load(b + channel)
    for tap in tl.static_range(TAPS):
        at = t + tap - (TAPS - 1)
        value = tl.load(x + row * length + at, mask=(at >= 0) & (at < length), other=0.0)
        acc += value * tl.load(w + channel * TAPS + tap)
    tl.store(y + row * length + t, acc * tl.sigmoid(acc), mask=t < length)


class ModelNew(torch.nn.Module):
    def __init__(self, channels, taps):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.empty(channels, 1, taps))
        self.bias = torch.nn.Parameter(torch.empty(channels))

    def forward(self, x):
        batch, channels, length = x.shape
        y = torch.empty_like(x)
        causal_conv1d_silu[(batch * channels, triton.cdiv(length, 512))](
            x, self.weight, self.bias, y, channels, length, TAPS=self.weight.shape[2], BLOCK=512
        )
        return y
