# plan: {"att_stages": 2, "att_warps": 4, "attention": "flash", "bias": "tail", "bk": 64, "block": 1024, "bm": 32, "bn": 32, "bq": 64, "bs": 32, "dot_stages": 3, "dot_warps": 4, "evict": "", "fusion": "node", "grid": "stride", "group": 8, "layout": "rows", "loop_block": 1024, "matmul": "torch", "precision": "ieee", "reduce": "once", "row_warps": 4, "rows": 1, "split_k": 1, "stages": 2, "tune": "fixed", "warps": 4, "waves": 8}
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
def _kernel0(in0_ptr, out0_ptr, M, N, BIG: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Fused: abs_1."""
    for tile in range(tl.program_id(0), tl.cdiv(M, ROWS) * tl.cdiv(N, COLS), tl.num_programs(0)):
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
        v2 = tl.abs(x1)
        tl.store(out0_ptr + lin, v2, mask=ok)


@triton.jit
def _kernel1(in0_ptr, out0_ptr, M, N, BIG: tl.constexpr, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    """Fused: amax."""
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
        r2 = tl.max(tl.where(ok, x1, -float("inf")), axis=1, keep_dims=True)
        tl.store(out0_ptr + rows, r2, mask=row_ok)


@triton.jit
def _kernel2(in0_ptr, out0_ptr, total, BIG: tl.constexpr, BLOCK: tl.constexpr):
    """Fused: add."""
    for tile in range(tl.program_id(0), tl.cdiv(total, BLOCK), tl.num_programs(0)):
        base = tile
        if BIG:
            base = tile.to(tl.int64)
        lin = base * BLOCK + tl.arange(0, BLOCK)[None, :]
        ok = lin < total
        x1 = tl.load(in0_ptr + lin, mask=ok, other=0)
        v2 = x1 + 1e-06
        tl.store(out0_ptr + lin, v2, mask=ok)


@triton.jit
def _kernel3(in0_ptr, in1_ptr, out0_ptr, M, N, BIG: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Fused: div."""
    for tile in range(tl.program_id(0), tl.cdiv(M, ROWS) * tl.cdiv(N, COLS), tl.num_programs(0)):
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
        x2 = tl.load(in1_ptr + rows, mask=row_ok, other=0)
        v3 = x1 / x2
        tl.store(out0_ptr + lin, v3, mask=ok)


@triton.jit
def _kernel4(in0_ptr, out0_ptr, M, N, BIG: tl.constexpr, ROWS: tl.constexpr, COLS: tl.constexpr):
    """Fused: mul."""
    for tile in range(tl.program_id(0), tl.cdiv(M, ROWS) * tl.cdiv(N, COLS), tl.num_programs(0)):
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
        v2 = x1 * 127.0
        tl.store(out0_ptr + lin, v2, mask=ok)


class ModelNew(nn.Module):

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        c_x = x.contiguous()
        t_abs_1 = torch.empty((x.shape[0], x.shape[1]), dtype=torch.float32, device=x.device)
        _kernel0[_resident(triton.cdiv(x.shape[0], 1) * triton.cdiv(x.shape[1], 1024), 8),](c_x, t_abs_1, x.shape[0], x.shape[1], BIG=x.shape[0] * x.shape[1] >= 2 ** 31, ROWS=1, COLS=1024, num_warps=4)
        t_amax_p2 = torch.empty((x.shape[0], 1), dtype=torch.float32, device=t_abs_1.device)
        _kernel1[_resident(triton.cdiv(x.shape[0], 1), 8),](t_abs_1, t_amax_p2, x.shape[0], x.shape[1], BIG=x.shape[0] * x.shape[1] >= 2 ** 31, ROWS=1, BLOCK=triton.next_power_of_2(x.shape[1]), num_warps=4)
        t_add = torch.empty((x.shape[0], 1), dtype=torch.float32, device=t_amax_p2.device)
        _kernel2[_resident(triton.cdiv(x.shape[0], 1024), 8),](t_amax_p2, t_add, x.shape[0], BIG=x.shape[0] >= 2 ** 31, BLOCK=1024, num_warps=4)
        t_div = torch.empty((x.shape[0], x.shape[1]), dtype=torch.float32, device=x.device)
        _kernel3[_resident(triton.cdiv(x.shape[0], 1) * triton.cdiv(x.shape[1], 1024), 8),](c_x, t_add, t_div, x.shape[0], x.shape[1], BIG=x.shape[0] * x.shape[1] >= 2 ** 31, ROWS=1, COLS=1024, num_warps=4)
        t_mul = torch.empty((x.shape[0], x.shape[1]), dtype=torch.float32, device=t_div.device)
        _kernel4[_resident(triton.cdiv(x.shape[0], 1) * triton.cdiv(x.shape[1], 1024), 8),](t_div, t_mul, x.shape[0], x.shape[1], BIG=x.shape[0] * x.shape[1] >= 2 ** 31, ROWS=1, COLS=1024, num_warps=4)
        return t_mul
