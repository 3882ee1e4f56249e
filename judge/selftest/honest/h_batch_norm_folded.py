# title: batch normalisation folded into gain and shift by prepare
# problem: batch_norm_eval
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def gain_shift_relu(x_ptr, gain_ptr, shift_ptr, y_ptr, channels, area, BLOCK: tl.constexpr):
    plane = tl.program_id(0)
    offs = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    gain = tl.load(gain_ptr + plane % channels)
    shift = tl.load(shift_ptr + plane % channels)
    x = tl.load(x_ptr + plane * area + offs, mask=offs < area, other=0.0)
    tl.store(y_ptr + plane * area + offs, tl.maximum(x * gain + shift, 0.0), mask=offs < area)


class ModelNew(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(channels)
        self.norm.eval()
        self.gain = self.shift = None

    @torch.no_grad()
    def prepare(self):
        norm = self.norm
        self.gain = norm.weight * torch.rsqrt(norm.running_var + norm.eps)
        self.shift = norm.bias - norm.running_mean * self.gain

    def forward(self, x):
        batch, channels, height, width = x.shape
        area = height * width
        y = torch.empty_like(x)
        gain_shift_relu[(batch * channels, triton.cdiv(area, 1024))](
            x, self.gain, self.shift, y, channels, area, BLOCK=1024
        )
        return y
