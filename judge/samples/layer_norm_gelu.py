"""LayerNorm and GELU.

Family: reductions
LayerNorm with weight and bias, followed by the exact GELU.
"""

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 24
WIDTH = 384


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        nn.init.normal_(self.norm.weight, mean=1.0, std=0.2)
        nn.init.normal_(self.norm.bias, std=0.2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.gelu(self.norm(x))


def get_inputs():
    return [torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return [WIDTH]


def get_cases():
    return {"gpu": {"TOKENS": 16384, "WIDTH": 4096}}
