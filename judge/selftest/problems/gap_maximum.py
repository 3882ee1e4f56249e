"""Largest value of each row; a row with a gap (NaN) answers with NaN."""

import torch
from torch import nn

ROWS = 20
COLUMNS = 100


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.amax(dim=1)


def get_inputs():
    x = torch.randn(ROWS, COLUMNS)
    x[torch.arange(ROWS) % 7 == 3, COLUMNS // 2] = float("nan")
    return [x]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 3000}}
