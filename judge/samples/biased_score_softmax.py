"""Softmax of scaled scores with a bias.

Family: attention
The middle of an attention layer: scale the scores, add a position bias shared by the batch, softmax.
"""

import torch
from torch import nn

BATCH = 2
HEADS = 3
LENGTH = 40


class Model(nn.Module):
    def __init__(self, heads: int, length: int, scale: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(heads, length, length))
        self.scale = scale

    def forward(self, scores: torch.Tensor) -> torch.Tensor:
        return torch.softmax(scores * self.scale + self.bias, dim=-1)


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, LENGTH)]


def get_init_inputs():
    return [HEADS, LENGTH, 0.125]


def get_cases():
    return {"gpu": {"BATCH": 8, "HEADS": 16, "LENGTH": 1024}}
