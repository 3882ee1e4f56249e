"""Smooth L1 loss, averaged to one number."""

import torch
import torch.nn.functional as F
from torch import nn

SIZE = 5000


class Model(nn.Module):
    def forward(self, x: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.smooth_l1_loss(x, target, beta=0.7)


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"SIZE": 30_000_001}}
