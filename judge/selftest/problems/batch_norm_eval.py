"""Batch normalisation in evaluation mode with running statistics, then ReLU."""

import torch
from torch import nn

BATCH = 4
CHANNELS = 10
SIDE = 11


class Model(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.BatchNorm2d(channels)
        self.norm.running_mean.normal_()
        self.norm.running_var.uniform_(0.5, 2.0)
        self.eval()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS]


def get_cases():
    return {"gpu": {"BATCH": 64, "CHANNELS": 96, "SIDE": 56}}
