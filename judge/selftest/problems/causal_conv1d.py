"""Causal depthwise convolution over time, four taps, then SiLU."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 2
CHANNELS = 12
LENGTH = 130
TAPS = 4


class Model(nn.Module):
    def __init__(self, channels: int, taps: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(channels, 1, taps) / taps**0.5)
        self.bias = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        channels, _, taps = self.weight.shape
        return F.silu(F.conv1d(F.pad(x, (taps - 1, 0)), self.weight, self.bias, groups=channels))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, LENGTH)]


def get_init_inputs():
    return [CHANNELS, TAPS]


def get_cases():
    return {"gpu": {"BATCH": 8, "CHANNELS": 512, "LENGTH": 4000}}
