# title: product of transposed matrices read through their strides
# problem: transposed_input
# expect: pass
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def matmul_tanh(a, b, c, M, N, K, sam, sak, sbk, sbn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * sam + k[None, :] * sak, mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + k[:, None] * sbk + n[None, :] * sbn, mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc += tl.dot(x, y, input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], libdevice.tanh(acc), mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        M, K = a.shape
        N = b.shape[1]
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        matmul_tanh[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            a, b, c, M, N, K, *a.stride(), *b.stride(), BM=32, BN=32, BK=32
        )
        return c
