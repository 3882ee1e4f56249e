"""Group normalisation of images, then SiLU."""

import torch
import torch.nn.functional as F
from torch import nn

BATCH = 3
CHANNELS = 12
GROUPS = 4
SIDE = 9


class Model(nn.Module):
    def __init__(self, groups: int, channels: int) -> None:
        super().__init__()
        self.norm = nn.GroupNorm(groups, channels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.silu(self.norm(x))


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, SIDE, SIDE)]


def get_init_inputs():
    return [GROUPS, CHANNELS]


def get_cases():
    return {"gpu": {"BATCH": 32, "CHANNELS": 128, "GROUPS": 32, "SIDE": 56}}
