"""Mean square of millions of numbers: one number out, and every one of them counts."""

import torch

ROWS = 1024
COLUMNS = 2048


class Model(torch.nn.Module):
    def forward(self, x):
        return x.square().mean()


def get_inputs():
    return [torch.randn(ROWS * COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 4096}, "interpreter": {"ROWS": 256}}
