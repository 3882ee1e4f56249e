# title: the inner side split among programs that add atomically to zeros
# problem: deep_matmul
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def split_k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, SPLITS: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(tl.program_id(2) * BK, K, BK * SPLITS):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    tl.atomic_add(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.zeros((M, N), device=a.device, dtype=a.dtype)
        splits = 4 if K < 4096 else 16
        split_k[(triton.cdiv(M, 32), triton.cdiv(N, 32), splits)](a, b, c, M, N, K, BM=32, BN=32, BK=64, SPLITS=splits)
        return c
