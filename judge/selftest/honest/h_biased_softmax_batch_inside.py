# title: softmax with a bias that is read once for the whole batch
# problem: samples/biased_score_softmax
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_shared_bias(s, b, o, batch, heads, length, scale, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    head = tl.program_id(1)
    r = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    c = tl.arange(0, BLOCK)[None, :]
    inside = (r < length) & (c < length)
    bias = tl.load(b + (head * length + r) * length + c, mask=inside, other=0.0)
    for item in range(batch):
        at = ((item * heads + head) * length + r) * length + c
        z = tl.load(s + at, mask=inside, other=0.0) * scale + bias
        z = tl.where(c < length, z, float("-inf"))
        z = tl.exp(z - tl.max(z, axis=1, keep_dims=True))
        tl.store(o + at, z / tl.sum(z, axis=1, keep_dims=True), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, heads, length, scale):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(heads, length, length))
        self.scale = scale

    def forward(self, scores):
        batch, heads, length, _ = scores.shape
        out = torch.empty_like(scores)
        softmax_shared_bias[(triton.cdiv(length, 8), heads)](
            scores, self.bias, out, batch, heads, length, self.scale, ROWS=8, BLOCK=triton.next_power_of_2(length)
        )
        return out
