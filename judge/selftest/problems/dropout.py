"""Dropout in training mode, then a scale."""

import torch

ROWS = 64
COLUMNS = 256


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return torch.nn.functional.dropout(x, 0.1, training=True) * self.weight


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 4096, "COLUMNS": 2048}, "interpreter": {"ROWS": 12, "COLUMNS": 96}}
