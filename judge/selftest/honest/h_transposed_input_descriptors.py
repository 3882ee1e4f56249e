# title: product of transposed matrices through tensor descriptors of their memory
# problem: transposed_input
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_descriptors(at, bt, c, M, N, K, lda, ldb, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    # both matrices lie transposed in memory: (K, M) and (N, K)
    a_desc = tl.make_tensor_descriptor(at, shape=[K, M], strides=[lda, 1], block_shape=[BK, BM])
    b_desc = tl.make_tensor_descriptor(bt, shape=[N, K], strides=[ldb, 1], block_shape=[BN, BK])
    m0 = tl.program_id(0) * BM
    n0 = tl.program_id(1) * BN
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        x = a_desc.load([k0, m0])
        y = b_desc.load([n0, k0])
        acc += tl.dot(x.T, y.T, input_precision="ieee")
    m = m0 + tl.arange(0, BM)
    n = n0 + tl.arange(0, BN)
    result = 2.0 / (1.0 + tl.exp(-2.0 * acc)) - 1.0
    tl.store(c + m[:, None] * N + n[None, :], result, mask=(m[:, None] < M) & (n[None, :] < N))


def scratch(size: int, alignment: int, stream):
    return torch.empty(size, device="cuda", dtype=torch.int8)


def aligned_rows(x):
    """Rows of a descriptor start at multiples of 16 bytes: four floats."""
    short = -x.shape[1] % 4
    return torch.nn.functional.pad(x, (0, short)) if short else x.contiguous()


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        triton.set_allocator(scratch)
        (M, K), N = a.shape, b.shape[1]
        at, bt = aligned_rows(a.t()), aligned_rows(b.t())
        c = torch.empty((M, N), device=a.device, dtype=a.dtype)
        matmul_descriptors[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            at, bt, c, M, N, K, at.stride(0), bt.stride(0), BM=32, BN=32, BK=32
        )
        return c
