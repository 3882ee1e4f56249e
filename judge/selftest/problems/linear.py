"""A linear layer with bias in fp32."""

import torch

ROWS = 64
INNER = 256
OUTER = 128


class Model(torch.nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(outer, inner) / inner**0.5)
        self.bias = torch.nn.Parameter(torch.randn(outer))

    def forward(self, x):
        return x @ self.weight.t() + self.bias


def get_inputs():
    return [torch.randn(ROWS, INNER)]


def get_init_inputs():
    return [INNER, OUTER]


def get_cases():
    return {
        "gpu": {"ROWS": 2048, "INNER": 1024, "OUTER": 1024},
        "interpreter": {"ROWS": 32, "INNER": 128, "OUTER": 32},
    }
