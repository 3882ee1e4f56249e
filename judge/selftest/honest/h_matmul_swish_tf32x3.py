# title: matrix product in three TF32 products, grouped program order
# problem: samples/matmul_swish_clamp
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def grouped_matmul(
    A, B, C, M, N, K, sam, sak, sbk, sbn, scm, scn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(0)
    tiles_m = tl.cdiv(M, BM)
    tiles_n = tl.cdiv(N, BN)
    in_group = GROUP * tiles_n
    first = pid // in_group * GROUP
    size = min(tiles_m - first, GROUP)
    pm = first + pid % in_group % size
    pn = pid % in_group // size
    rm = (pm * BM + tl.arange(0, BM)) % M
    rn = (pn * BN + tl.arange(0, BN)) % N
    rk = tl.arange(0, BK)
    pa = A + rm[:, None] * sam + rk[None, :] * sak
    pb = B + rk[:, None] * sbk + rn[None, :] * sbn
    acc = tl.zeros((BM, BN), tl.float32)
    for step in range(tl.cdiv(K, BK)):
        left = K - step * BK
        acc = tl.dot(
            tl.load(pa, mask=rk[None, :] < left, other=0.0),
            tl.load(pb, mask=rk[:, None] < left, other=0.0),
            acc,
            input_precision="tf32x3",
        )
        pa += BK * sak
        pb += BK * sbk
    acc = acc / (1.0 + tl.exp(-acc))
    acc = tl.clamp(acc, -1.0, 6.0)
    cm = pm * BM + tl.arange(0, BM)
    cn = pn * BN + tl.arange(0, BN)
    tl.store(C + cm[:, None] * scm + cn[None, :] * scn, acc, mask=(cm[:, None] < M) & (cn[None, :] < N))


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        m, k = a.shape
        n = b.shape[1]
        c = a.new_empty(m, n)
        grid = (triton.cdiv(m, 64) * triton.cdiv(n, 32),)
        grouped_matmul[grid](a, b, c, m, n, k, *a.stride(), *b.stride(), *c.stride(), BM=64, BN=32, BK=32, GROUP=4)
        return c
