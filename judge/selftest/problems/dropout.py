"""Dropout in training mode after a shift."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 12
COLUMNS = 85


class Model(nn.Module):
    def __init__(self, columns: int, p: float) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.randn(columns))
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x + self.shift, self.p, training=True)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS, 0.3]


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 4096}}
