"""Batched matrix product whose sides are no multiples of any tile."""

import torch
from torch import nn

BATCH = 3
ROWS = 37
INNER = 45
COLUMNS = 29


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.bmm(a, b)


def get_inputs():
    return [torch.randn(BATCH, ROWS, INNER), torch.randn(BATCH, INNER, COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"BATCH": 32, "ROWS": 500, "INNER": 333, "COLUMNS": 260}}
