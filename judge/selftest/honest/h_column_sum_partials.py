# title: column sums of row chunks into scratch memory, summed by a second kernel
# problem: column_sum
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def chunk_sums(x, w, partial, rows, cols, CHUNK: tl.constexpr, BC: tl.constexpr):
    chunk = tl.program_id(1)
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    r = chunk * CHUNK + tl.arange(0, CHUNK)
    v = tl.load(x + r[:, None] * cols + c[None, :], mask=(r[:, None] < rows) & (c[None, :] < cols), other=0.0)
    v *= tl.load(w + r, mask=r < rows, other=0.0)[:, None]
    tl.store(partial + chunk * cols + c, tl.sum(v, 0), mask=c < cols)


@triton.jit
def sum_chunks(partial, out, chunks, cols, BC: tl.constexpr):
    c = tl.program_id(0) * BC + tl.arange(0, BC)
    acc = tl.zeros((BC,), tl.float32)
    for i in range(chunks):
        acc += tl.load(partial + i * cols + c, mask=c < cols, other=0.0)
    tl.store(out + c, acc, mask=c < cols)


class ModelNew(torch.nn.Module):
    CHUNK = 128

    def forward(self, x, weight):
        rows, cols = x.shape
        chunks = triton.cdiv(rows, self.CHUNK)
        partial = torch.empty((chunks, cols), device=x.device, dtype=torch.float32)
        out = x.new_empty(cols)
        chunk_sums[(triton.cdiv(cols, 32), chunks)](x, weight, partial, rows, cols, CHUNK=self.CHUNK, BC=32)
        sum_chunks[(triton.cdiv(cols, 128),)](partial, out, chunks, cols, BC=128)
        return out
