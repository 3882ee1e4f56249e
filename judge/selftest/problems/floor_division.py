"""Integers split into quotient and remainder, rounded towards minus infinity."""

import torch
from torch import nn

SIZE = 900


class Model(nn.Module):
    def forward(self, x: torch.Tensor, step: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.div(x, step, rounding_mode="floor"), torch.remainder(x, step)


def get_inputs():
    x = torch.randint(-1000, 1000, (SIZE,), dtype=torch.int32)
    return [x, torch.randint(1, 30, (SIZE,), dtype=torch.int32)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"SIZE": 30_000_001}}
