"""Squared distances between two sets of points."""

import torch
from torch import nn

LEFT = 40
RIGHT = 35
WIDTH = 24


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a[:, None, :] - b[None, :, :]).square().sum(dim=-1)


def get_inputs():
    return [torch.randn(LEFT, WIDTH), torch.randn(RIGHT, WIDTH)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"LEFT": 1000, "RIGHT": 1200, "WIDTH": 96}}
