# title: LayerNorm with its own backward: gradients of rows, then of weight and bias from partial sums
# problem: layer_norm
# policy: {"gradients": "all", "library": "refuse"}
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def forward_rows(x, w, b, y, means, scales, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < n
    v = tl.load(x + row * n + c, mask=inside, other=0.0)
    mean = tl.sum(v) / n
    d = tl.where(inside, v - mean, 0.0)
    scale = 1.0 / tl.sqrt(tl.sum(d * d) / n + eps)
    out = d * scale * tl.load(w + c, mask=inside, other=0.0) + tl.load(b + c, mask=inside, other=0.0)
    tl.store(y + row * n + c, out, mask=inside)
    tl.store(means + row, mean)
    tl.store(scales + row, scale)


@triton.jit
def backward_rows(x, w, g, means, scales, dx, dw, db, rows, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    part = tl.program_id(0)
    c = tl.arange(0, BLOCK)
    inside = c < n
    weight = tl.load(w + c, mask=inside, other=0.0)
    sum_w = tl.zeros([BLOCK], tl.float32)
    sum_b = tl.zeros([BLOCK], tl.float32)
    for row in range(part, rows, PARTS):
        scale = tl.load(scales + row)
        v = tl.load(x + row * n + c, mask=inside, other=0.0)
        hat = tl.where(inside, (v - tl.load(means + row)) * scale, 0.0)
        given = tl.load(g + row * n + c, mask=inside, other=0.0)
        scaled = given * weight
        along = tl.sum(hat * scaled) / n
        mean = tl.sum(scaled) / n
        tl.store(dx + row * n + c, (scaled - hat * along - mean) * scale, mask=inside)
        sum_w += given * hat
        sum_b += given
    tl.store(dw + part * n + c, sum_w, mask=inside)
    tl.store(db + part * n + c, sum_b, mask=inside)


@triton.jit
def add_parts(dw, db, w_out, b_out, n, PARTS: tl.constexpr, BLOCK: tl.constexpr):
    c = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = c < n
    sum_w = tl.zeros([BLOCK], tl.float32)
    sum_b = tl.zeros([BLOCK], tl.float32)
    for part in range(PARTS):
        sum_w += tl.load(dw + part * n + c, mask=inside, other=0.0)
        sum_b += tl.load(db + part * n + c, mask=inside, other=0.0)
    tl.store(w_out + c, sum_w, mask=inside)
    tl.store(b_out + c, sum_b, mask=inside)


class Norm(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w, b, eps):
        x = x.contiguous()
        rows, n = x.shape
        y = torch.empty_like(x)
        means, scales = x.new_empty(rows), x.new_empty(rows)
        forward_rows[(rows,)](x, w, b, y, means, scales, n, eps, BLOCK=triton.next_power_of_2(n), num_warps=8)
        ctx.save_for_backward(x, w, means, scales)
        return y

    @staticmethod
    def backward(ctx, g):
        x, w, means, scales = ctx.saved_tensors
        rows, n = x.shape
        g = g.contiguous()
        parts = 8 if rows < 1024 else 256
        dx, dw, db = torch.empty_like(x), torch.empty_like(w), torch.empty_like(w)
        all_w, all_b = w.new_empty(parts, n), w.new_empty(parts, n)
        block = triton.next_power_of_2(n)
        backward_rows[(parts,)](
            x, w, g, means, scales, dx, all_w, all_b, rows, n, PARTS=parts, BLOCK=block, num_warps=8
        )
        add_parts[(triton.cdiv(n, 64),)](all_w, all_b, dw, db, n, PARTS=parts, BLOCK=64)
        return dx, dw, db, None


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = torch.nn.LayerNorm(columns)

    def forward(self, x):
        return Norm.apply(x, self.norm.weight, self.norm.bias, self.norm.eps)
