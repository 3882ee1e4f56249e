"""Channels moved to the end and made contiguous, then scaled by channel."""

import torch
from torch import nn

BATCH = 2
CHANNELS = 21
AREA = 150


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.randn(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 2, 1).contiguous() * self.scale


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, AREA)]


def get_init_inputs():
    return [CHANNELS]


def get_cases():
    return {"gpu": {"BATCH": 32, "CHANNELS": 320, "AREA": 3136}}
