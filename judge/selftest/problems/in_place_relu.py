"""A shift and ReLU written back into the input, which is returned."""

import torch
from torch import nn

ROWS = 20
COLUMNS = 150


class Model(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.randn(columns))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.add_(self.shift).relu_()


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 2500}}
