"""Log-sum-exp of scaled rows.

Family: reductions
A scaled log-sum-exp over the last dimension, the normaliser of a large soft maximum.
"""

import torch
from torch import nn

ROWS = 32
COLUMNS = 900


class Model(nn.Module):
    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.logsumexp(x * self.scale, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return [1.7]


def get_cases():
    return {"gpu": {"ROWS": 8192, "COLUMNS": 32000}}
