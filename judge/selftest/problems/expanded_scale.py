"""Rows times a scale that is given once and expanded over them, as broadcast operands are."""

import torch

ROWS = 256
COLUMNS = 512


class Model(torch.nn.Module):
    def forward(self, x, scale):
        return torch.nn.functional.silu(x * scale)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.randn(COLUMNS).expand(ROWS, COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 4096}, "interpreter": {"ROWS": 24, "COLUMNS": 96}}
