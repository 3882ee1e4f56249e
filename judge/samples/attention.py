"""Scaled dot-product attention.

Family: attention
Softmax attention written out: scores, softmax, weighted sum. The scores never need to reach memory.
"""

import torch
from torch import nn

BATCH = 1
HEADS = 2
LENGTH = 48
WIDTH = 32


class Model(nn.Module):
    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5)
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"BATCH": 4, "HEADS": 16, "LENGTH": 1024, "WIDTH": 64}}
