"""Matrix product with a long inner side and a small result."""

import torch
from torch import nn

ROWS = 24
INNER = 700
COLUMNS = 20


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a @ b


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 128, "INNER": 16000, "COLUMNS": 200}}
