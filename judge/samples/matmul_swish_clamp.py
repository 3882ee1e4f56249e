"""Matrix product, swish and clamp.

Family: matmul
A plain matrix product of two inputs with a swish and a clamp behind it.
"""

import torch
from torch import nn

ROWS = 60
INNER = 72
COLUMNS = 50


class Model(nn.Module):
    def forward(self, a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        product = a @ b
        return torch.clamp(product * torch.sigmoid(product), -1.0, 6.0)


def get_inputs():
    return [torch.randn(ROWS, INNER), torch.randn(INNER, COLUMNS) / INNER**0.5]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 4096, "INNER": 1000, "COLUMNS": 3000}}
