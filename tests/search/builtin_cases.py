"""Small reference modules for the built-in proposer: name -> (constructor body, forward signature and body, inputs)."""

from __future__ import annotations

HEAD = """import math

import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 24


class Model(nn.Module):
    def __init__(self{params}):
        super(Model, self).__init__()
{init}

    def forward(self, {args}):
{body}


def get_inputs():
    return [{inputs}]


def get_init_inputs():
    return [{inits}]
"""


def _module(body: str, inputs: str, init: str = "pass", params: str = "", inits: str = "", args: str = "x") -> str:
    def shift(text: str) -> str:
        return "\n".join("        " + line for line in text.strip().splitlines())

    return HEAD.format(
        init=shift(init), body=shift(body), inputs=inputs, params=params and ", " + params, inits=inits, args=args
    )


X = "torch.randn(6, SIZE)"
CASES: dict[str, str] = {
    # element-wise
    "bias_gelu": _module("return F.gelu(x + self.b)", X, "self.b = nn.Parameter(torch.randn(24))"),
    "activations": _module(
        "return (F.silu(x) + torch.sigmoid(x) * torch.tanh(x), F.softplus(x) - F.mish(x), F.hardswish(x), "
        "F.leaky_relu(x, 0.2), F.elu(x, 0.7), F.gelu(x, approximate='tanh'), F.selu(x), F.hardtanh(x, -0.5, 0.5))",
        "torch.randn(6, SIZE) * 3",
    ),
    "arithmetic": _module(
        "a = torch.exp(-x.abs()) + torch.log1p(y * y)\n"
        "b = torch.rsqrt(y.pow(2) + 1.0) - torch.sqrt(x.abs() + 0.1) / 3.0\n"
        "return torch.where(a > b, torch.maximum(a, y), torch.minimum(b, x)).clamp(-1.5, 1.5), a.pow(1.5), 2.0 - x",
        "torch.randn(4, 5, SIZE), torch.randn(5, SIZE)",
        args="x, y",
    ),
    "channel_scale": _module(
        "return torch.relu(x * self.scale + self.shift) * torch.sigmoid(self.gate)",
        "torch.randn(2, 3, 5, 7)",
        "self.scale = nn.Parameter(torch.randn(3, 1, 1))\nself.shift = nn.Parameter(torch.randn(1, 3, 1, 1))\n"
        "self.gate = nn.Parameter(torch.randn(()))",
    ),
    "mask_int": _module(
        "keep = (ids > 2) & (ids != 5)\nreturn x.masked_fill(keep, 0.0), torch.where(keep, 1.0, 0.5) * x, ids + 1",
        "torch.randn(4, 9), torch.randint(0, 8, (4, 9))",
        args="x, ids",
    ),
    "batch_norm_eval": _module(
        "return F.relu(F.batch_norm(x, self.m, self.v, self.w, self.b))",
        "torch.randn(3, 4, 5, 2)",
        "self.w = nn.Parameter(torch.randn(4))\nself.b = nn.Parameter(torch.randn(4))\n"
        "self.register_buffer('m', torch.randn(4))\nself.register_buffer('v', torch.rand(4) + 0.5)",
    ),
    "dropout_dict": _module(
        "y = F.dropout(x, 0.5, False)\nreturn {'double': y * 2, 'pair': [y + 1, (y.to(torch.float16).float(),)]}", X
    ),
    "transposed_input": _module(
        "return torch.tanh(x.transpose(1, 2) * 2 + self.b)",
        "torch.randn(2, 5, 7)",
        "self.b = nn.Parameter(torch.randn(5))",
    ),
    "two_branches": _module(
        "a = F.mish(x)\nb = torch.sigmoid(y)\nreturn a * b + z.clone(), z.clone()",
        f"{X}.bfloat16(), {X}.bfloat16(), {X}.bfloat16()",
        args="x, y, z",
    ),
    # rows
    "softmax": _module("return torch.softmax(x * 0.5, dim=-1)", "torch.randn(7, 37)"),
    "softmax_middle": _module("return torch.softmax(x, dim=1)", "torch.randn(3, 9, 5)"),
    "log_softmax_residual": _module("return F.log_softmax(x, -1) + y", f"{X}, {X}", args="x, y"),
    "layer_norm": _module("return self.norm(x + y) * 2 + x", f"{X}, {X}", "self.norm = nn.LayerNorm(24)", args="x, y"),
    "layer_norm_two_dims": _module(
        "return F.layer_norm(x, (4, 6), self.w)", "torch.randn(3, 2, 4, 6)", "self.w = nn.Parameter(torch.randn(4, 6))"
    ),
    "rms_norm": _module(
        "scale = torch.rsqrt(x.float().pow(2).mean(-1, keepdim=True) + self.eps)\n"
        "return (x * scale) * self.weight, scale",
        "torch.randn(2, 5, 40)",
        "self.weight = nn.Parameter(torch.randn(40))\nself.eps = eps",
        "eps",
        "1e-6",
    ),
    "reductions": _module(
        "return (x.sum(-1), x.mean(-1, keepdim=True), x.amax(1), x.amin(1, keepdim=True), x.var(-1), "
        "torch.logsumexp(x, -1), x.norm(dim=-1), x.std(1, unbiased=False))",
        "torch.randn(5, 33)",
    ),
    "column_sum": _module("return (x * x).sum(1), x.mean(dim=(1, 2))", "torch.randn(2, 5, 7)"),
    "spatial_mean": _module("return F.relu(x).mean(dim=(2, 3)) * 2", "torch.randn(2, 3, 5, 4)"),
    "group_norm": _module("return F.silu(self.n(x))", "torch.randn(2, 6, 4, 5)", "self.n = nn.GroupNorm(3, 6)"),
    "instance_norm": _module(
        "return self.n(x) + 1", "torch.randn(2, 3, 4, 5)", "self.n = nn.InstanceNorm2d(3, affine=True)"
    ),
    "normalize": _module("return F.normalize(x, dim=-1) @ self.w", X, "self.w = nn.Parameter(torch.randn(24, 8))"),
    # products
    "linear_relu_div": _module(
        "return torch.relu(self.fc(x)) / self.d", X, "self.fc = nn.Linear(24, 40)\nself.d = 2.0"
    ),
    "linear_norm": _module(
        "return self.norm(F.gelu(self.fc(x)))",
        "torch.randn(2, 9, SIZE)",
        "self.fc = nn.Linear(24, 20)\nself.norm = nn.LayerNorm(20)",
    ),
    "residual_sigmoid": _module("y = self.fc(x)\nreturn torch.sigmoid(y) * 2.0 + y", X, "self.fc = nn.Linear(24, 17)"),
    "mlp": _module(
        "return self.layers(x) + x",
        X,
        "self.layers = nn.Sequential(nn.Linear(24, 48), nn.ReLU(inplace=True), nn.Linear(48, 24))",
    ),
    "bmm_scale": _module(
        "return torch.bmm(x, y) * 0.5 + self.b",
        "torch.randn(3, 5, 8), torch.randn(3, 8, 6)",
        "self.b = nn.Parameter(torch.randn(6))",
        args="x, y",
    ),
    "addmm": _module(
        "return torch.addmm(self.b, x, self.w, beta=0.5, alpha=2.0).tanh()",
        X,
        "self.w = nn.Parameter(torch.randn(24, 8))\nself.b = nn.Parameter(torch.randn(8))",
    ),
    "half_linear": _module(
        "return F.silu(F.linear(x, self.w)) + 1",
        "torch.randn(6, SIZE).half()",
        "self.w = nn.Parameter(torch.randn(12, 24).half())",
    ),
    "conv_tail": _module(
        "return F.relu(self.c(x)) * self.s",
        "torch.randn(2, 3, 6, 6)",
        "self.c = nn.Conv2d(3, 4, 3)\nself.s = nn.Parameter(torch.randn(4, 1, 1))",
    ),
    "gated_products": _module(
        "return F.silu(self.a(x)) * self.b(x)", X, "self.a = nn.Linear(24, 16, bias=False)\nself.b = nn.Linear(24, 16)"
    ),
    # attention
    "sdpa": _module(
        "return F.scaled_dot_product_attention(x, y, z, is_causal=True)",
        "torch.randn(2, 3, 20, 8), torch.randn(2, 3, 20, 8), torch.randn(2, 3, 20, 8)",
        args="x, y, z",
    ),
    "sdpa_mask": _module(
        "return F.scaled_dot_product_attention(x, y, z, attn_mask=m, scale=0.3) * 2",
        "torch.randn(2, 3, 9, 8), torch.randn(2, 3, 20, 8), torch.randn(2, 3, 20, 16), torch.randn(9, 20)",
        args="x, y, z, m",
    ),
    "attention_block": _module(
        "b, t, c = x.shape\nq, k, v = self.qkv(x).split(c, dim=2)\n"
        "q = q.view(b, t, self.heads, c // self.heads).transpose(1, 2)\n"
        "k = k.view(b, t, self.heads, c // self.heads).transpose(1, 2)\n"
        "v = v.view(b, t, self.heads, c // self.heads).transpose(1, 2)\n"
        "a = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))\n"
        "a = a.masked_fill(self.mask[:t, :t] == 0, float('-inf'))\n"
        "y = F.softmax(a, dim=-1) @ v\n"
        "return self.out(y.transpose(1, 2).contiguous().view(b, t, c))",
        "torch.randn(2, 10, 24)",
        "self.qkv = nn.Linear(24, 72)\nself.out = nn.Linear(24, 24)\nself.heads = heads\n"
        "self.register_buffer('mask', torch.tril(torch.ones(16, 16)))",
        "heads",
        "3",
    ),
}
