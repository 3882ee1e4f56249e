"""Softplus of a shifted fp64 matrix, row sums beside it."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 16
COLUMNS = 120


class Model(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.randn(columns, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = F.softplus(x + self.shift)
        return y, y.sum(dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS, dtype=torch.float64)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 2000}}
