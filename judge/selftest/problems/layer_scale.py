"""A residual block whose branch starts with a scale of 1e-7, as deep networks do."""

import torch

ROWS = 64
COLUMNS = 256


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.gamma = torch.nn.Parameter(torch.full((columns,), 1e-7))

    def forward(self, x):
        return x + self.gamma * torch.tanh(x) * torch.relu(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 4096, "COLUMNS": 2048}, "interpreter": {"ROWS": 12, "COLUMNS": 96}}
