"""Linear and LayerNorm.

Family: matmul
A linear layer without bias followed by LayerNorm over its outputs: a product whose tail needs whole rows.
"""

import torch
from torch import nn

TOKENS = 32
WIDTH_IN = 80
WIDTH_OUT = 128


class Model(nn.Module):
    def __init__(self, width_in: int, width_out: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width_in, width_out, bias=False)
        self.norm = nn.LayerNorm(width_out)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH_IN)]


def get_init_inputs():
    return [WIDTH_IN, WIDTH_OUT]


def get_cases():
    return {"gpu": {"TOKENS": 16384, "WIDTH_IN": 512, "WIDTH_OUT": 1024}}
