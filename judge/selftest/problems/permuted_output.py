"""Heads split off and moved forward: the result is a view whose memory is not in order."""

import torch
from torch import nn

BATCH = 2
LENGTH = 18
HEADS = 3
WIDTH = 8


class Model(nn.Module):
    def __init__(self, heads: int, width: int) -> None:
        super().__init__()
        self.heads = heads
        self.scale = nn.Parameter(torch.rand(heads * width) + 0.5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, _ = x.shape
        return (x * self.scale).view(batch, length, self.heads, -1).transpose(1, 2)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS * WIDTH)]


def get_init_inputs():
    return [HEADS, WIDTH]


def get_cases():
    return {"gpu": {"BATCH": 16, "LENGTH": 1000, "HEADS": 12, "WIDTH": 64}}
