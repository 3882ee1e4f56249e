# title: linear layer judged on bfloat16 inputs and parameters by the policy
# problem: samples/linear_relu_scale
# policy: {"dtype": "bfloat16"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def linear_bf16(x_ptr, w_ptr, b_ptr, y_ptr, M, N, K, scale, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for start in range(0, K, BK):
        k = start + tl.arange(0, BK)
        x = tl.load(x_ptr + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        w = tl.load(w_ptr + n[None, :] * K + k[:, None], mask=(n[None, :] < N) & (k[:, None] < K), other=0.0)
        acc = tl.dot(x, w, acc)
    acc += tl.load(b_ptr + n, mask=n < N, other=0.0).to(tl.float32)[None, :]
    out = (tl.maximum(acc, 0.0) * scale).to(y_ptr.dtype.element_ty)
    tl.store(y_ptr + m[:, None] * N + n[None, :], out, mask=(m[:, None] < M) & (n[None, :] < N))


class ModelNew(torch.nn.Module):
    def __init__(self, width_in, width_out, scale):
        super().__init__()
        self.linear = torch.nn.Linear(width_in, width_out)
        self.scale = scale

    def forward(self, x):
        M, K = x.shape
        N = self.linear.out_features
        y = torch.empty((M, N), device=x.device, dtype=x.dtype)
        linear_bf16[(triton.cdiv(M, 32), triton.cdiv(N, 32))](
            x, self.linear.weight, self.linear.bias, y, M, N, K, self.scale, BM=32, BN=32, BK=32
        )
        return y
