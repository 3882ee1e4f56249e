"""Mean of each channel's image, as in global average pooling, with the spread beside it."""

import torch
from torch import nn

BATCH = 4
CHANNELS = 7
HEIGHT = 13
WIDTH = 15


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"mean": x.mean(dim=(2, 3)), "std": x.std(dim=(2, 3))}


def get_inputs():
    return [torch.randn(BATCH, CHANNELS, HEIGHT, WIDTH) + 0.5]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"BATCH": 64, "CHANNELS": 256, "HEIGHT": 56, "WIDTH": 55}}
