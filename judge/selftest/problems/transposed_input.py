"""A product of matrices that are handed over transposed, so their memory is not row by row."""

import torch
from torch import nn

ROWS = 33
INNER = 50
COLUMNS = 41


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return (a @ b).tanh()


def get_inputs():
    return [torch.randn(INNER, ROWS).t() * 0.2, torch.randn(COLUMNS, INNER).t() * 0.2]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 2000, "INNER": 500, "COLUMNS": 1500}}
