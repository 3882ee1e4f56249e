"""GELU of rows with a bias."""

import torch

ROWS = 96
COLUMNS = 320


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return torch.nn.functional.gelu(x + self.bias)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 2048}, "interpreter": {"ROWS": 20, "COLUMNS": 96}}
