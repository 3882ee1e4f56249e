# title: linear layer over a weight that prepare has transposed, GELU and residual fused
# problem: samples/linear_gelu_residual
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def linear_gelu_add(x_ptr, wt_ptr, b_ptr, r_ptr, y_ptr, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(wt_ptr + k[:, None] * N + n[None, :], mask=(k[:, None] < K) & (n[None, :] < N), other=0.0)
        acc = tl.dot(x, w, acc, input_precision="ieee")
    h = acc + tl.load(b_ptr + n, mask=n < N, other=0.0)[None, :]
    inner = 0.7978845608028654 * (h + 0.044715 * h * h * h)
    gelu = h * tl.sigmoid(2.0 * inner)
    inside = (m[:, None] < M) & (n[None, :] < N)
    at = m[:, None] * N + n[None, :]
    tl.store(y_ptr + at, gelu + tl.load(r_ptr + at, mask=inside, other=0.0), mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)
        self.transposed = None

    def prepare(self):
        """Called again after every change of the parameters."""
        self.transposed = self.linear.weight.detach().t().contiguous()

    def forward(self, x, residual):
        M, K = x.shape
        N = K
        y = torch.empty_like(residual)
        grid = (triton.cdiv(M, 32), triton.cdiv(N, 32))
        linear_gelu_add[grid](x, self.transposed, self.linear.bias, residual, y, M, N, K, BM=32, BN=32, BK=32)
        return y
