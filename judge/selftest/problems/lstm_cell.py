"""The pointwise part of an LSTM cell: four gates, new cell, new hidden state."""

import torch
from torch import nn

BATCH = 12
WIDTH = 70


class Model(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(4 * width))

    def forward(self, gates: torch.Tensor, cell: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        i, f, g, o = (gates + self.bias).chunk(4, dim=1)
        new = torch.sigmoid(f) * cell + torch.sigmoid(i) * torch.tanh(g)
        return torch.sigmoid(o) * torch.tanh(new), new


def get_inputs():
    return [torch.randn(BATCH, 4 * WIDTH), torch.randn(BATCH, WIDTH)]


def get_init_inputs():
    return [WIDTH]


def get_cases():
    return {"gpu": {"BATCH": 4096, "WIDTH": 1500}}
