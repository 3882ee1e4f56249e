# title: attention with online softmax over key blocks
# problem: samples/attention
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def flash_fwd(Q, K, V, Out, LENGTH, scale, WIDTH: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    start_m = tl.program_id(0) * BLOCK_M
    head = tl.program_id(1).to(tl.int64) * LENGTH * WIDTH
    offs_m = start_m + tl.arange(0, BLOCK_M)
    offs_d = tl.arange(0, WIDTH)
    q = tl.load(Q + head + offs_m[:, None] * WIDTH + offs_d[None, :], mask=offs_m[:, None] < LENGTH, other=0.0)
    m_i = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    l_i = tl.zeros((BLOCK_M,), dtype=tl.float32)
    acc = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    for start_n in range(0, LENGTH, BLOCK_N):
        offs_n = start_n + tl.arange(0, BLOCK_N)
        k = tl.load(K + head + offs_n[None, :] * WIDTH + offs_d[:, None], mask=offs_n[None, :] < LENGTH, other=0.0)
        qk = tl.dot(q, k, input_precision="ieee") * scale
        qk = tl.where(offs_n[None, :] < LENGTH, qk, -float("inf"))
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.exp(qk - m_ij[:, None])
        alpha = tl.exp(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        v = tl.load(V + head + offs_n[:, None] * WIDTH + offs_d[None, :], mask=offs_n[:, None] < LENGTH, other=0.0)
        acc = acc * alpha[:, None] + tl.dot(p, v, input_precision="ieee")
        m_i = m_ij
    acc = acc / l_i[:, None]
    tl.store(Out + head + offs_m[:, None] * WIDTH + offs_d[None, :], acc, mask=offs_m[:, None] < LENGTH)


class ModelNew(torch.nn.Module):
    def forward(self, q, k, v):
        q, k, v = q.contiguous(), k.contiguous(), v.contiguous()
        batch, heads, length, width = q.shape
        out = torch.empty_like(q)
        flash_fwd[(triton.cdiv(length, 32), batch * heads)](
            q, k, v, out, length, width**-0.5, WIDTH=width, BLOCK_M=32, BLOCK_N=32
        )
        return out
