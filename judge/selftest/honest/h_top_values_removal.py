# title: largest values found one after another, each removed once
# problem: top_values
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def take_largest(x, out, n, COUNT: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf"))
    for i in tl.static_range(COUNT):
        best = tl.max(v, axis=0)
        first = tl.argmax(v, axis=0)
        tl.store(out + row * COUNT + i, best)
        v = tl.where(at == first, -float("inf"), v)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = x.new_empty(rows, 4)
        take_largest[(rows,)](x, out, n, COUNT=4, BLOCK=triton.next_power_of_2(n))
        return out
