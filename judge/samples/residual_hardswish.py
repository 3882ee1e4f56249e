"""Residual mix with hard swish.

Family: element-wise
Mixes two tensors with fixed weights, clamps the result and applies hard swish.
"""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 6
CHANNELS = 10
SIDE = 14


class Model(nn.Module):
    def __init__(self, alpha: float, beta: float) -> None:
        super().__init__()
        self.alpha = alpha
        self.beta = beta

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        mixed = self.alpha * x + self.beta * residual
        return F.hardswish(torch.clamp(mixed, -4.0, 4.0))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE), torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [2.0, -1.5]


def get_cases():
    return {"gpu": {"BATCH": 64, "CHANNELS": 256, "SIDE": 56}}
