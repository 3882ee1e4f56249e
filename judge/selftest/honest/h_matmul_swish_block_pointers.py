# title: matrix product through block pointers with boundary checks
# problem: samples/matmul_swish_clamp
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def matmul_block_ptr(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr,
):  # fmt: skip
    row = tl.program_id(0) * BLOCK_M
    col = tl.program_id(1) * BLOCK_N
    a_block = tl.make_block_ptr(a_ptr, (M, K), (stride_am, stride_ak), (row, 0), (BLOCK_M, BLOCK_K), (1, 0))
    b_block = tl.make_block_ptr(b_ptr, (K, N), (stride_bk, stride_bn), (0, col), (BLOCK_K, BLOCK_N), (1, 0))
    acc = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for _ in range(0, K, BLOCK_K):
        a = tl.load(a_block, boundary_check=(0, 1), padding_option="zero")
        b = tl.load(b_block, boundary_check=(0, 1), padding_option="zero")
        acc = tl.dot(a, b, acc, input_precision="ieee")
        a_block = tl.advance(a_block, (0, BLOCK_K))
        b_block = tl.advance(b_block, (BLOCK_K, 0))
    acc = acc * tl.sigmoid(acc)
    acc = tl.maximum(tl.minimum(acc, 6.0), -1.0)
    c_block = tl.make_block_ptr(c_ptr, (M, N), (stride_cm, stride_cn), (row, col), (BLOCK_M, BLOCK_N), (1, 0))
    tl.store(c_block, acc, boundary_check=(0, 1))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        (M, K), N = a.shape, b.shape[1]
        c = torch.empty(M, N, device=a.device, dtype=a.dtype)
        matmul_block_ptr[(triton.cdiv(M, 32), triton.cdiv(N, 64))](
            a, b, c, M, N, K, a.stride(0), a.stride(1), b.stride(0), b.stride(1), c.stride(0), c.stride(1),
            BLOCK_M=32, BLOCK_N=64, BLOCK_K=16,
        )  # fmt: skip
        return c
