"""Each square block of a batch transposed, then its rows summed up from the first."""

import torch
from torch import nn

BATCH = 10
SIDE = 24


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.transpose(1, 2).cumsum(dim=1)


def get_inputs():
    return [torch.randn(BATCH, SIDE, SIDE)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"BATCH": 8192, "SIDE": 60}}
