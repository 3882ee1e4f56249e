"""LayerNorm over rows, with weight and bias."""

import torch

ROWS = 96
COLUMNS = 320


class Model(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.norm = torch.nn.LayerNorm(columns)
        torch.nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)
        torch.nn.init.normal_(self.norm.bias, std=0.2)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [COLUMNS]


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 2048}, "interpreter": {"ROWS": 20, "COLUMNS": 96}}
