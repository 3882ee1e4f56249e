# title: causal attention that stops at the diagonal
# problem: samples/causal_attention
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def causal_fwd(q_ptr, k_ptr, v_ptr, o_ptr, n, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr):
    first = tl.program_id(0) * BM
    base = tl.program_id(1).to(tl.int64) * n * D
    rm = first + tl.arange(0, BM)
    rd = tl.arange(0, D)
    q = tl.load(q_ptr + base + rm[:, None] * D + rd[None, :], mask=rm[:, None] < n, other=0.0)
    peak = tl.full((BM,), -float("inf"), tl.float32)
    total = tl.zeros((BM,), tl.float32)
    acc = tl.zeros((BM, D), tl.float32)
    last = tl.minimum(first + BM, n)
    for low in range(0, last, BN):
        rn = low + tl.arange(0, BN)
        k = tl.load(k_ptr + base + rn[None, :] * D + rd[:, None], mask=rn[None, :] < n, other=0.0)
        s = tl.dot(q, k, input_precision="ieee") * scale
        s = tl.where(rm[:, None] >= rn[None, :], s, -float("inf"))
        higher = tl.maximum(peak, tl.max(s, 1))
        p = tl.exp(s - higher[:, None])
        fade = tl.exp(peak - higher)
        total = total * fade + tl.sum(p, 1)
        v = tl.load(v_ptr + base + rn[:, None] * D + rd[None, :], mask=rn[:, None] < n, other=0.0)
        acc = acc * fade[:, None] + tl.dot(p, v, input_precision="ieee")
        peak = higher
    tl.store(o_ptr + base + rm[:, None] * D + rd[None, :], acc / total[:, None], mask=rm[:, None] < n)


class ModelNew(torch.nn.Module):
    def __init__(self, length):
        super().__init__()

    def forward(self, q, k, v):
        batch, heads, n, d = q.shape
        out = torch.empty_like(q)
        causal_fwd[(triton.cdiv(n, 16), batch * heads)](q, k, v, out, n, d**-0.5, D=d, BM=16, BN=16)
        return out
