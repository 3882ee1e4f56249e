"""Dropout in training mode after a scale, large enough that drawing its mask takes a while."""

import torch
import torch.nn.functional as F

ROWS = 48
COLUMNS = 1024


class Model(torch.nn.Module):
    def __init__(self, columns: int, p: float) -> None:
        super().__init__()
        self.scale = torch.nn.Parameter(torch.randn(columns))
        self.p = p

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.dropout(x * self.scale, self.p, training=True)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS, 0.3]


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 4096}, "interpreter": {"ROWS": 12, "COLUMNS": 85}}
