# title: rolling hashes in 64-bit integers, one lane a row
# problem: polynomial_hash
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def hash_rows(x, out, rows, n, PRIME: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = row < rows
    total = tl.zeros((BLOCK,), tl.int64)
    for column in range(n):
        value = tl.load(x + row.to(tl.int64) * n + column, mask=inside, other=0)
        total = (total * 131 + value) % PRIME
    tl.store(out + row, total, mask=inside)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        rows, n = x.shape
        out = torch.empty(rows, dtype=torch.int64, device=x.device)
        hash_rows[(triton.cdiv(rows, 128),)](x, out, rows, n, PRIME=2_147_483_629, BLOCK=128)
        return out
