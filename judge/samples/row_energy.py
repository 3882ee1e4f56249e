"""Row sums of squares.

Family: reductions
The sum of squares of every row after subtracting a vector of offsets: one read, one number per row.
"""

import torch
from torch import nn

ROWS = 32
COLUMNS = 900


class Model(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.offset = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return (x - self.offset).square().sum(dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 8192}}
