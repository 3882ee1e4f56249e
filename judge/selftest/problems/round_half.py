"""Values on a grid of halves rounded to integers, ties to the even one."""

import torch
from torch import nn

SIZE = 1200


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.round(x).to(torch.int32)


def get_inputs():
    return [torch.randint(-200, 200, (SIZE,)).float() / 2]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"SIZE": 50_000_003}}
