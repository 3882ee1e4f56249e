# title: launches inside a device guard on the current stream, output given by keyword
# problem: samples/residual_hardswish
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def hardswish_mix(x, r, y, n, alpha, beta, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = alpha * tl.load(x + at, mask=at < n) + beta * tl.load(r + at, mask=at < n)
    v = tl.minimum(tl.maximum(v, -4.0), 4.0)
    tl.store(y + at, v * tl.clamp(v / 6.0 + 0.5, 0.0, 1.0), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, alpha: float, beta: float):
        super().__init__()
        self.alpha, self.beta = alpha, beta

    def forward(self, x, residual):
        if not x.is_cuda or not residual.is_cuda:
            raise ValueError("this kernel needs CUDA tensors")
        x, residual = x.contiguous(), residual.contiguous()
        out = torch.empty_like(x, memory_format=torch.contiguous_format)
        with torch.cuda.device(x.device), torch.cuda.stream(torch.cuda.current_stream()):
            hardswish_mix[(triton.cdiv(x.numel(), 1024),)](
                x=x, r=residual, y=out, n=x.numel(), alpha=self.alpha, beta=self.beta, BLOCK=1024
            )
        return out
