"""Two-dimensional convolution with stride and padding, then ReLU."""

import torch
from torch import nn

BATCH = 2
CHANNELS_IN = 5
CHANNELS_OUT = 12
SIDE = 13
STRIDE = 2


class Model(nn.Module):
    def __init__(self, channels_in: int, channels_out: int, stride: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(channels_in, channels_out, 3, stride=stride, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.conv(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS_IN, SIDE, SIDE)]


def get_init_inputs():
    return [CHANNELS_IN, CHANNELS_OUT, STRIDE]


def get_cases():
    return {"gpu": {"BATCH": 16, "CHANNELS_IN": 48, "CHANNELS_OUT": 96, "SIDE": 57}}
