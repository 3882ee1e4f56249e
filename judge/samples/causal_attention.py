"""Causal attention.

Family: attention
Attention in which a token sees only itself and what came before; half of the scores need not be computed.
"""

import torch
from torch import nn

BATCH = 1
HEADS = 2
LENGTH = 40
WIDTH = 32


class Model(nn.Module):
    def __init__(self, length: int) -> None:
        super().__init__()
        self.register_buffer("future", torch.ones(length, length, dtype=torch.bool).triu(1))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        scores = q @ k.transpose(-2, -1) * (q.shape[-1] ** -0.5)
        scores = scores.masked_fill(self.future, float("-inf"))
        return torch.softmax(scores, dim=-1) @ v


def get_inputs():
    return [torch.randn(BATCH, HEADS, LENGTH, WIDTH) for _ in range(3)]


def get_init_inputs():
    return [LENGTH]


def get_cases():
    return {"gpu": {"BATCH": 2, "HEADS": 16, "LENGTH": 1024, "WIDTH": 64}}
