"""h[t] = a[t] * h[t - 1] + x[t] along each row, as in gated state-space layers."""

import torch
from torch import nn

ROWS = 10
LENGTH = 60


class Model(nn.Module):
    def forward(self, a: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        gate = torch.sigmoid(a)
        h = torch.zeros_like(x[:, 0])
        out = []
        for t in range(x.shape[1]):
            h = gate[:, t] * h + x[:, t]
            out.append(h)
        return torch.stack(out, dim=1)


def get_inputs():
    return [torch.randn(ROWS, LENGTH), torch.randn(ROWS, LENGTH)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 16384, "LENGTH": 120}}
