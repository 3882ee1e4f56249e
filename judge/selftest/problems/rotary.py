"""Rotary position embedding, the two halves of each head rotated."""

import torch
from torch import nn

BATCH = 2
LENGTH = 14
HEADS = 3
WIDTH = 16


class Model(nn.Module):
    def forward(self, x: torch.Tensor, angle: torch.Tensor) -> torch.Tensor:
        cos, sin = angle.cos()[None, :, None, :], angle.sin()[None, :, None, :]
        left, right = x.chunk(2, dim=-1)
        return torch.cat((left * cos - right * sin, right * cos + left * sin), dim=-1)


def get_inputs():
    return [torch.randn(BATCH, LENGTH, HEADS, WIDTH), torch.rand(LENGTH, WIDTH // 2) * 6]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"BATCH": 8, "LENGTH": 1000, "HEADS": 16, "WIDTH": 128}}
