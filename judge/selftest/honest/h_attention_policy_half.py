# title: attention with both products in bfloat16, which this policy allows
# problem: samples/attention
# policy: {"precision": "half"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def attention_bf16(q, k, v, o, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    head = tl.program_id(1) * n * D
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    query = tl.load(q + head + m[:, None] * D + d[None, :], mask=m[:, None] < n, other=0.0).to(tl.bfloat16)
    peak = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    for low in range(0, n, BN):
        c = low + tl.arange(0, BN)
        key = tl.load(k + head + c[None, :] * D + d[:, None], mask=c[None, :] < n, other=0.0).to(tl.bfloat16)
        s = tl.where(c[None, :] < n, tl.dot(query, key) * scale, -float("inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        fade = tl.exp(peak - higher)
        total = total * fade + tl.sum(p, 1)
        value = tl.load(v + head + c[:, None] * D + d[None, :], mask=c[:, None] < n, other=0.0).to(tl.bfloat16)
        acc = acc * fade[:, None] + tl.dot(p.to(tl.bfloat16), value)
        peak = higher
    tl.store(o + head + m[:, None] * D + d[None, :], acc / total[:, None], mask=m[:, None] < n)


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        b, h, n, d = q.shape
        o = torch.empty_like(q)
        attention_bf16[(triton.cdiv(n, 32), b * h)](q, k, v, o, n, d**-0.5, D=d, BM=32, BN=32)
        return o
