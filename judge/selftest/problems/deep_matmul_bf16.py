"""Matrix product of bfloat16 matrices with a long inner side."""

import torch
from torch import nn

ROWS = 30
INNER = 1200
COLUMNS = 26


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(ROWS, INNER, dtype=torch.bfloat16), torch.randn(INNER, COLUMNS, dtype=torch.bfloat16)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 512, "INNER": 8000, "COLUMNS": 500}}
