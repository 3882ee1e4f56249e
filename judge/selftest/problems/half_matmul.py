"""Matrix product of fp16 matrices with a bias, the result in fp16."""

import torch
from torch import nn

ROWS = 40
INNER = 90
COLUMNS = 50


class Model(nn.Module):
    def __init__(self, columns: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(columns, dtype=torch.float16))

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b + self.bias


def get_inputs():
    return [torch.randn(ROWS, INNER, dtype=torch.float16), torch.randn(INNER, COLUMNS, dtype=torch.float16)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 4096, "INNER": 1024, "COLUMNS": 2000}}
