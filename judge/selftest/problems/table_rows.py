"""Rows plus a learned table, and a copy of the table's rows that were used."""

import torch
from torch import nn

ROWS = 24
COLUMNS = 96


class Model(nn.Module):
    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self.table = nn.Parameter(torch.randn(rows, columns))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        used = self.table[: x.shape[0]]
        return x + used, used.clone()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [2 * ROWS, COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 4096, "COLUMNS": 2048}}
