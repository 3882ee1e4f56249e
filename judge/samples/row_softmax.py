"""Softmax over rows with a temperature.

Family: reductions
Divides by a temperature and takes the softmax over the last dimension, whose length is no power of two.
"""

import torch
from torch import nn

ROWS = 24
COLUMNS = 700


class Model(nn.Module):
    def __init__(self, temperature: float) -> None:
        super().__init__()
        self.temperature = temperature

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x / self.temperature, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [0.7]


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 5000}}
