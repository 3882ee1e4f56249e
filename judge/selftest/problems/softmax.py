"""Softmax over rows."""

import torch

ROWS = 64
COLUMNS = 250


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 4096, "COLUMNS": 2000}, "interpreter": {"ROWS": 12, "COLUMNS": 96}}
