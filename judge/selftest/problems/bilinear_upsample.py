"""Images enlarged to twice their size with bilinear weights, corners not aligned."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 2
CHANNELS = 4
HEIGHT = 9
WIDTH = 12


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.interpolate(x, scale_factor=2, mode="bilinear", align_corners=False)


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"BATCH": 16, "CHANNELS": 64, "HEIGHT": 100, "WIDTH": 96}}
