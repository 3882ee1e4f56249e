# title: classes counted by atomic additions
# problem: histogram
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def count(x, counts, n, CLASSES: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    label = tl.load(x + row * n + at, mask=inside, other=0)
    tl.atomic_add(counts + row * CLASSES + label, 1, mask=inside)


class ModelNew(torch.nn.Module):
    CLASSES = 10

    def forward(self, x):
        rows, n = x.shape
        counts = torch.zeros((rows, self.CLASSES), dtype=torch.int64, device=x.device)
        count[(rows, triton.cdiv(n, 256))](x, counts, n, CLASSES=self.CLASSES, BLOCK=256)
        return counts
