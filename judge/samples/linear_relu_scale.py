"""Linear, ReLU and scale.

Family: matmul
A linear layer whose bias, ReLU and scale fit into the tail of the matrix product.
"""

import torch
from torch import nn

ROWS = 48
WIDTH_IN = 96
WIDTH_OUT = 80


class Model(nn.Module):
    def __init__(self, width_in: int, width_out: int, scale: float) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width_out)
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x)) * self.scale


def get_inputs():
    return [torch.randn(ROWS, WIDTH_IN)]


def get_init_inputs():
    return [WIDTH_IN, WIDTH_OUT, 0.5]


def get_cases():
    return {"gpu": {"ROWS": 8192, "WIDTH_IN": 512, "WIDTH_OUT": 2048}}
