"""Products of small numbers: every output lies below common absolute tolerances."""

import torch

ROWS = 64
COLUMNS = 256


class Model(torch.nn.Module):
    def forward(self, x, y):
        return (x * 1e-4) * torch.sigmoid(y) * 1e-3


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 4096, "COLUMNS": 2048}, "interpreter": {"ROWS": 12, "COLUMNS": 96}}
