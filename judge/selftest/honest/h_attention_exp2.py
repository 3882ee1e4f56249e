# title: attention in base two, strides passed in, TF32 in three products
# problem: samples/attention
# expect: pass
import math

import torch
import triton
import triton.language as tl


@triton.jit
def attn(
    q_ptr, k_ptr, v_ptr, o_ptr, stride_h, stride_l, stride_d, n, scale_log2e,
    D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    d = tl.arange(0, D)
    offset = tl.program_id(1) * stride_h
    q = tl.load(q_ptr + offset + rows[:, None] * stride_l + d[None, :] * stride_d, mask=rows[:, None] < n, other=0.0)
    q = q * scale_log2e
    peak = tl.full([BM], float("-inf"), tl.float32)
    weight = tl.full([BM], 0.0, tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    for low in tl.range(0, n, BN):
        cols = low + tl.arange(0, BN)
        inside = cols[:, None] < n
        k = tl.load(k_ptr + offset + cols[:, None] * stride_l + d[None, :] * stride_d, mask=inside, other=0.0)
        v = tl.load(v_ptr + offset + cols[:, None] * stride_l + d[None, :] * stride_d, mask=inside, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="tf32x3")
        s = tl.where(cols[None, :] < n, s, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(s, axis=1))
        p = tl.math.exp2(s - new_peak[:, None])
        shrink = tl.math.exp2(peak - new_peak)
        weight = weight * shrink + tl.sum(p, axis=1)
        acc = tl.dot(p, v, acc * shrink[:, None], input_precision="tf32x3")
        peak = new_peak
    tl.store(
        o_ptr + offset + rows[:, None] * stride_l + d[None, :] * stride_d,
        acc / weight[:, None],
        mask=rows[:, None] < n,
    )


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.log2e = math.log2(math.e)

    def forward(self, q, k, v):
        b, h, n, d = q.shape
        q, k, v = (t.contiguous() for t in (q, k, v))
        o = torch.empty_like(q)
        grid = (triton.cdiv(n, 16), b * h)
        attn[grid](q, k, v, o, n * d, d, 1, n, self.log2e / math.sqrt(d), D=d, BM=16, BN=64, num_warps=4, num_stages=2)
        return o
