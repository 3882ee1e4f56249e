# plan: {"att_stages": 2, "att_warps": 4, "attention": "flash", "bias": "tail", "bk": 64, "block": 1024, "bm": 32, "bn": 32, "bq": 64, "bs": 32, "dot_stages": 3, "dot_warps": 4, "evict": "", "fusion": "full", "grid": "block", "group": 8, "layout": "rows", "loop_block": 512, "matmul": "torch", "precision": "ieee", "reduce": "once", "row_warps": 4, "rows": 1, "split_k": 1, "stages": 2, "tune": "fixed", "warps": 4, "waves": 8}
import torch
from torch import nn
import triton
import triton.language as tl


@triton.jit
def _kernel0(in0_ptr, in1_ptr, in2_ptr, out0_ptr, n0, M, N, BIG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Fused: layer_norm, gelu."""
    tile = tl.program_id(0)
    rows = tile * ROWS + tl.arange(0, ROWS)[:, None]
    if BIG:
        rows = rows.to(tl.int64)
    row_ok = rows < M
    cols = tl.arange(0, BLOCK)[None, :]
    col_ok = cols < N
    ok = row_ok & col_ok
    lin = rows * N + cols
    x1 = tl.load(in0_ptr + lin, mask=ok, other=0)
    r2 = tl.sum(tl.where(ok, x1, 0.0), axis=1, keep_dims=True)
    v3 = r2 / n0
    v4 = x1 - v3
    v5 = v4 * v4
    r6 = tl.sum(tl.where(ok, v5, 0.0), axis=1, keep_dims=True)
    v7 = r6 / n0
    v8 = v7 + 1e-05
    v9 = 1.0 / tl.sqrt(v8)
    v10 = v4 * v9
    x11 = tl.load(in1_ptr + cols, mask=col_ok, other=0)
    v12 = v10 * x11
    x13 = tl.load(in2_ptr + cols, mask=col_ok, other=0)
    v14 = v12 + x13
    v15 = 0.5 * v14 * (1.0 + tl.erf(v14 * 0.7071067811865476))
    tl.store(out0_ptr + lin, v15, mask=ok)


class ModelNew(nn.Module):

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)
        nn.init.normal_(self.norm.bias, std=0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c_x = x.contiguous()
        t_gelu = torch.empty((x.shape[0], x.shape[1]), dtype=torch.float32, device=x.device)
        _kernel0[triton.cdiv(x.shape[0], 1),](c_x, self.norm.weight, self.norm.bias, t_gelu, x.shape[1], x.shape[0], x.shape[1], BIG=x.shape[0] * x.shape[1] >= 2 ** 31, ROWS=1, BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=4)
        return t_gelu
