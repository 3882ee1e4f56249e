"""Bias, GELU and scale.

Family: element-wise
Adds a bias per column, applies the tanh form of GELU and scales: three passes that one kernel can do in one.
"""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 24
COLUMNS = 500


class Model(nn.Module):
    def __init__(self, columns: int, scale: float) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns))
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(x + self.bias, approximate="tanh") * self.scale


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS, 1.25]


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 4096}}
