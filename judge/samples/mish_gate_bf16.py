"""Mish gate in bf16.

Family: element-wise
x * tanh(softplus(x)) times a gate, all in bfloat16: every pass rounds, so one fused pass is faster and more accurate.
"""

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 20
WIDTH = 640


class Model(nn.Module):
    def forward(self, x: torch.Tensor, gate: torch.Tensor) -> torch.Tensor:
        return x * torch.tanh(F.softplus(x)) * torch.sigmoid(gate)


def get_inputs():
    return [
        torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16),
        torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16),
    ]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"TOKENS": 16384, "WIDTH": 8192}}
