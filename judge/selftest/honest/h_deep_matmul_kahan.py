# title: long inner side accumulated with compensation between blocks
# problem: deep_matmul
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def compensated_matmul(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)[:, None]
    n = tl.program_id(1) * BN + tl.arange(0, BN)[None, :]
    total = tl.zeros((BM, BN), tl.float32)
    lost = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + m * K + k[None, :], mask=(m < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + n, mask=(k[:, None] < K) & (n < N), other=0.0)
        part = tl.dot(x, y, input_precision="ieee") - lost
        grown = total + part
        lost = (grown - total) - part
        total = grown
    tl.store(c + m * N + n, total, mask=(m < M) & (n < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty(M, N, device=a.device, dtype=a.dtype)
        compensated_matmul[(triton.cdiv(M, 32), triton.cdiv(N, 32))](a, b, c, M, N, K, BM=32, BN=32, BK=64)
        return c
