# title: softmax judged on fp16 inputs by the policy
# problem: samples/row_softmax
# policy: {"dtype": "float16"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_any_type(x, y, n, t, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf")).to(tl.float32) / t
    e = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, (e / tl.sum(e, 0)).to(y.dtype.element_ty), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, x):
        y = torch.empty_like(x)
        softmax_any_type[(x.shape[0],)](x, y, x.shape[1], self.temperature, BLOCK=triton.next_power_of_2(x.shape[1]))
        return y
