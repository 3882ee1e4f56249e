"""A copy of the input next to the length of each of its rows."""

import torch
from torch import nn

ROWS = 16
COLUMNS = 90


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.clone(), x.norm(dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 2000}}
