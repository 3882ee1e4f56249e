"""Sum of each column of a matrix, with a weight for each row."""

import torch
from torch import nn

ROWS = 300
COLUMNS = 90


class Model(nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
        return (x * weight[:, None]).sum(dim=0)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.rand(ROWS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 2000}}
