# plan: {"att_stages": 2, "att_warps": 4, "attention": "flash", "bias": "tail", "bk": 32, "block": 1024, "bm": 32, "bn": 32, "bq": 64, "bs": 32, "dot_stages": 3, "dot_warps": 4, "evict": "", "fusion": "full", "grid": "block", "group": 8, "layout": "rows", "loop_block": 256, "matmul": "torch", "precision": "ieee", "reduce": "once", "row_warps": 4, "rows": 1, "split_k": 1, "stages": 2, "tune": "fixed", "warps": 4, "waves": 8}
# Left to torch: aten.linear.
import torch
from torch import nn
import triton
import triton.language as tl


@triton.jit
def _kernel0(in0_ptr, in1_ptr, out0_ptr, M, N, BIG: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Fused: linear, relu, mul."""
    tile = tl.program_id(0)
    strips = tl.cdiv(N, COLS)
    rows = (tile // strips) * ROWS + tl.arange(0, ROWS)[:, None]
    if BIG:
        rows = rows.to(tl.int64)
    cols = (tile % strips) * COLS + tl.arange(0, COLS)[None, :]
    row_ok = rows < M
    col_ok = cols < N
    ok = row_ok & col_ok
    lin = rows * N + cols
    x1 = tl.load(in0_ptr + lin, mask=ok, other=0)
    x2 = tl.load(in1_ptr + cols, mask=col_ok, other=0)
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
        _kernel0[triton.cdiv(x.shape[0], 8) * triton.cdiv(self.linear.weight.shape[0], 128),](c_linear, self.linear.bias, t_mul, x.shape[0], self.linear.weight.shape[0], BIG=x.shape[0] * self.linear.weight.shape[0] >= 2 ** 31, ROWS=8, COLS=128, num_warps=4)
        return t_mul
