# title: batched product as a sum of outer products, without tl.dot
# problem: batched_matmul
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def bmm_outer(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr):
    batch = tl.program_id(2)
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k in range(K):
        x = tl.load(a + (batch * M + m) * K + k, mask=m < M, other=0.0)
        y = tl.load(b + (batch * K + k) * N + n, mask=n < N, other=0.0)
        acc += x[:, None] * y[None, :]
    tl.store(c + (batch * M + m)[:, None] * N + n[None, :], acc, mask=(m < M)[:, None] & (n < N)[None, :])


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        a, b = a.contiguous(), b.contiguous()
        batch, M, K = a.shape
        N = b.shape[-1]
        c = a.new_empty(batch, M, N)
        bmm_outer[(triton.cdiv(M, 64), triton.cdiv(N, 32), batch)](a, b, c, M, N, K, BM=64, BN=32)
        return c
