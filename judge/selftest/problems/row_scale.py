"""Rows divided by their root mean square, times a learned weight."""

import torch

ROWS = 128
COLUMNS = 768


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(columns))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 4096, "COLUMNS": 2048}, "interpreter": {"ROWS": 12, "COLUMNS": 96}}
