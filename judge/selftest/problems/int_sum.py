"""Sums of rows of 32-bit integers, which wrap around as 32-bit sums do."""

import torch
from torch import nn

ROWS = 40
COLUMNS = 300


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(dim=1, dtype=torch.int32)


def get_inputs():
    return [torch.randint(-(2**31), 2**31 - 1, (ROWS, COLUMNS), dtype=torch.int32)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 4096}}
