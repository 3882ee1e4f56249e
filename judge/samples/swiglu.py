"""SwiGLU gate.

Family: element-wise
The gate of a transformer's feed-forward block: SiLU of one tensor times another.
"""

import torch
import torch.nn.functional as F
from torch import nn

TOKENS = 24
WIDTH = 384


class Model(nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        return F.silu(gate) * up


def get_inputs():
    return [torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"TOKENS": 8192, "WIDTH": 11008}}
