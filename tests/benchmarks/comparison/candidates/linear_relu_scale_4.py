# plan: {"att_stages": 2, "att_warps": 4, "attention": "flash", "bias": "tail", "bk": 32, "block": 1024, "bm": 32, "bn": 32, "bq": 64, "bs": 32, "dot_stages": 3, "dot_warps": 4, "evict": "", "fusion": "full", "grid": "stride", "group": 8, "layout": "flat", "loop_block": 256, "matmul": "torch", "precision": "ieee", "reduce": "once", "row_warps": 4, "rows": 1, "split_k": 1, "stages": 2, "tune": "fixed", "warps": 4, "waves": 8}
# Left to torch: aten.linear.
import torch
from torch import nn
import triton
import triton.language as tl


def _resident(tiles, waves):
    """How many programs of a resident grid to start: a few per multiprocessor, never more than there are tiles."""
    if torch.cuda.is_available():
        return min(tiles, waves * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)
    return min(tiles, waves)


@triton.jit
def _kernel0(in0_ptr, in1_ptr, out0_ptr, n0, total, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """Fused: linear, relu, mul."""
    for tile in range(tl.program_id(0), tl.cdiv(total, BLOCK), tl.num_programs(0)):
        base = tile
        if BIG:
            base = tile.to(tl.int64)
        lin = base * BLOCK + tl.arange(0, BLOCK)[None, :]
        ok = lin < total
        x1 = tl.load(in0_ptr + lin, mask=ok, other=0)
        x2 = tl.load(in1_ptr + (lin % n0), mask=ok, other=0)
        v3 = x1 + x2
        v4 = tl.where(v3 < 0.0, 0.0, v3)
        v5 = v4 * 0.5
        tl.store(out0_ptr + lin, v5, mask=ok)


class ModelNew(nn.Module):

    def __init__(self, width_in: int, width_out: int, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        t_linear = torch.nn.functional.linear(x, self.linear.weight)
        c_linear = t_linear.contiguous()
        t_mul = torch.empty((x.shape[0], self.linear.weight.shape[0]), dtype=torch.float32, device=t_linear.device)
        _kernel0[_resident(triton.cdiv(x.shape[0] * self.linear.weight.shape[0], 1024), 8),](c_linear, self.linear.bias, t_mul, self.linear.weight.shape[0], x.shape[0] * self.linear.weight.shape[0], BIG=x.shape[0] * self.linear.weight.shape[0] >= 2 ** 31, BLOCK=1024, num_warps=4)
        return t_mul
