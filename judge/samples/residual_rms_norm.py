"""Residual add and RMSNorm.

Family: reductions
Adds the residual stream and normalises by the root mean square over the last dimension, with a weight per column.
"""

import torch
from torch import nn

TOKENS = 24
WIDTH = 512


class Model(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.rand(width) + 0.5)
        self.eps = eps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        hidden = x + residual
        scale = torch.rsqrt(hidden.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return hidden * scale * self.weight


def get_inputs():
    return [torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH, 1e-6]


def get_cases():
    return {"gpu": {"TOKENS": 16384, "WIDTH": 4096}}
