"""Linear, GELU and residual.

Family: matmul
GELU of a linear layer plus the residual stream: two more passes over the result unless they are fused.
"""

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 40
WIDTH = 96


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.linear(x), approximate="tanh") + residual


def get_inputs():
    return [torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH]


def get_cases():
    return {"gpu": {"TOKENS": 16384, "WIDTH": 1024}}
