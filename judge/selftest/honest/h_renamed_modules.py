# title: a candidate with its own classes and other parameter names
# problem: samples/linear_layer_norm
# expect: pass
from dataclasses import dataclass

import torch
import triton
import triton.language as tl


@dataclass(frozen=True)
class Tile:
    m: int = 32
    n: int = 32
    k: int = 16

    def grid(self, rows, columns):
        return triton.cdiv(rows, self.m), triton.cdiv(columns, self.n)


@triton.jit
def matmul_nt(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr):
    m = tl.program_id(0) * BM + tl.arange(0, BM)
    n = tl.program_id(1) * BN + tl.arange(0, BN)
    acc = tl.zeros((BM, BN), tl.float32)
    for k0 in range(0, K, BK):
        k = k0 + tl.arange(0, BK)
        x = tl.load(a + m[:, None] * K + k[None, :], mask=(m[:, None] < M) & (k[None, :] < K), other=0.0)
        y = tl.load(b + n[:, None] * K + k[None, :], mask=(n[:, None] < N) & (k[None, :] < K), other=0.0)
        acc += tl.dot(x, tl.trans(y), input_precision="ieee")
    tl.store(c + m[:, None] * N + n[None, :], acc, mask=(m[:, None] < M) & (n[None, :] < N))


@triton.jit
def norm_rows(x, gain, bias, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=0.0)
    mean = tl.sum(v, 0) / n
    spread = tl.sqrt(tl.sum(tl.where(at < n, (v - mean) * (v - mean), 0.0), 0) / n + eps)
    out = (v - mean) / spread * tl.load(gain + at, mask=at < n) + tl.load(bias + at, mask=at < n)
    tl.store(y + row * n + at, out, mask=at < n)


class Projection(torch.nn.Module):
    def __init__(self, width_in, width_out, tile=Tile()):
        super().__init__()
        self.matrix = torch.nn.Parameter(torch.empty(width_out, width_in))
        self.tile = tile

    def forward(self, x):
        (M, K), N = x.shape, self.matrix.shape[0]
        out = x.new_empty(M, N)
        matmul_nt[self.tile.grid(M, N)](x, self.matrix, out, M, N, K, BM=self.tile.m, BN=self.tile.n, BK=self.tile.k)
        return out


class RowNorm(torch.nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.gain = torch.nn.Parameter(torch.ones(width))
        self.bias = torch.nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        y = torch.empty_like(x)
        norm_rows[(x.shape[0],)](
            x, self.gain, self.bias, y, x.shape[1], self.eps, BLOCK=triton.next_power_of_2(x.shape[1])
        )
        return y


class ModelNew(torch.nn.Sequential):
    def __init__(self, width_in, width_out):
        super().__init__(Projection(width_in, width_out), RowNorm(width_out))
