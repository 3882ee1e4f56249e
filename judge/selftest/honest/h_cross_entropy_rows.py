# title: loss of each row in a kernel, averaged by torch
# problem: cross_entropy
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def row_loss(logits, target, loss, classes, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    base = row.to(tl.int64) * classes
    peak = -float("inf")
    total = 0.0
    for start in range(0, classes, BLOCK):
        at = start + tl.arange(0, BLOCK)
        v = tl.load(logits + base + at, mask=at < classes, other=-float("inf"))
        higher = tl.maximum(peak, tl.max(v, 0))
        total = total * tl.exp(peak - higher) + tl.sum(tl.exp(v - higher), 0)
        peak = higher
    label = tl.load(target + row)
    tl.store(loss + row, tl.log(total) + peak - tl.load(logits + base + label))


class ModelNew(torch.nn.Module):
    def forward(self, logits, target):
        rows, classes = logits.shape
        loss = torch.empty(rows, device=logits.device, dtype=torch.float32)
        row_loss[(rows,)](logits, target, loss, classes, BLOCK=min(4096, triton.next_power_of_2(classes)))
        return loss.mean()
