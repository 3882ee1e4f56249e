"""Max pooling with overlapping windows and padding."""

import torch
from torch import nn

BATCH = 3
CHANNELS = 5
HEIGHT = 17
WIDTH = 14


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.pool(x)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) - 3.0]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"BATCH": 64, "CHANNELS": 64, "HEIGHT": 113, "WIDTH": 112}}
