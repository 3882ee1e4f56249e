"""Largest value of each row and where it first occurs."""

import torch
from torch import nn

ROWS = 24
COLUMNS = 300


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x.amax(dim=-1), x.argmax(dim=-1)


def get_inputs():
    return [torch.randint(-40, 40, (ROWS, COLUMNS)).float()]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 4000}}
