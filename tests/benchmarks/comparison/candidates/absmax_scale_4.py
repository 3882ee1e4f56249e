# plan: {"att_stages": 2, "att_warps": 4, "attention": "flash", "bias": "tail", "bk": 64, "block": 1024, "bm": 32, "bn": 32, "bq": 64, "bs": 32, "dot_stages": 3, "dot_warps": 4, "evict": "", "fusion": "full", "grid": "stride", "group": 8, "layout": "flat", "loop_block": 1024, "matmul": "torch", "precision": "ieee", "reduce": "once", "row_warps": 4, "rows": 1, "split_k": 1, "stages": 2, "tune": "auto", "warps": 4, "waves": 8}
import torch
from torch import nn
import triton
import triton.language as tl


def _resident(tiles, waves):
    """How many programs of a resident grid to start: a few per multiprocessor, never more than there are tiles."""
    if torch.cuda.is_available():
        return min(tiles, waves * torch.cuda.get_device_properties(torch.cuda.current_device()).multi_processor_count)
    return min(tiles, waves)


@triton.autotune(
    configs=[
        triton.Config({"ROWS": 1}, num_warps=4),
        triton.Config({"ROWS": 1}, num_warps=8),
        triton.Config({"ROWS": 2}, num_warps=4),
        triton.Config({"ROWS": 1}, num_warps=16),
    ],
    key=['M', 'N'],
)
@triton.jit
def _kernel0(in0_ptr, out0_ptr, M, N, BIG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Fused: abs_1, amax, add, div, mul."""
    for tile in range(tl.program_id(0), tl.cdiv(M, ROWS), tl.num_programs(0)):
        rows = tile * ROWS + tl.arange(0, ROWS)[:, None]
        if BIG:
            rows = rows.to(tl.int64)
        row_ok = rows < M
        cols = tl.arange(0, BLOCK)[None, :]
        col_ok = cols < N
        ok = row_ok & col_ok
        lin = rows * N + cols
        x1 = tl.load(in0_ptr + lin, mask=ok, other=0)
        v2 = tl.abs(x1)
        r3 = tl.max(tl.where(ok, v2, -float("inf")), axis=1, keep_dims=True)
        v4 = r3 + 1e-06
        v5 = x1 / v4
        v6 = v5 * 127.0
        tl.store(out0_ptr + lin, v6, mask=ok)


class ModelNew(nn.Module):

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c_x = x.contiguous()
        t_mul = torch.empty((x.shape[0], x.shape[1]), dtype=torch.float32, device=x.device)
        _kernel0[lambda meta: (_resident(triton.cdiv(x.shape[0], meta['ROWS']), 8),)](c_x, t_mul, x.shape[0], x.shape[1], BIG=x.shape[0] * x.shape[1] >= 2 ** 31, BLOCK=triton.next_power_of_2(x.shape[1]))
        return t_mul
