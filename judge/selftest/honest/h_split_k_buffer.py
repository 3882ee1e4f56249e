# title: the inner side split into partial results that torch adds up
# problem: deep_matmul
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def partial_products(a, b, parts, M, N, K, span, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    part = tl.program_id(2)
    rm = tl.program_id(0) * BM + tl.arange(0, BM)
    rn = tl.program_id(1) * BN + tl.arange(0, BN)
    end = tl.minimum((part + 1) * span, K)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for start in range(part * span, end, BK):
        rk = start + tl.arange(0, BK)
        x = tl.load(a + rm[:, None] * K + rk[None, :], mask=(rm[:, None] < M) & (rk[None, :] < end), other=0.0)
        y = tl.load(b + rk[:, None] * N + rn[None, :], mask=(rk[:, None] < end) & (rn[None, :] < N), other=0.0)
        acc = tl.dot(x, y, acc, input_precision="ieee")
    where = (part * M + rm[:, None]) * N + rn[None, :]
    tl.store(parts + where, acc, mask=(rm[:, None] < M) & (rn[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        span = triton.cdiv(triton.cdiv(K, 7), 32) * 32
        count = triton.cdiv(K, span)
        parts = torch.empty((count, M, N), device=a.device, dtype=torch.float32)
        partial_products[(triton.cdiv(M, 16), triton.cdiv(N, 32), count)](
            a, b, parts, M, N, K, span, BM=16, BN=32, BK=32
        )
        return parts.sum(dim=0)
