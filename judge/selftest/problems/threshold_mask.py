"""Where a value exceeds its row's threshold, and whether any value of the row does."""

import torch
from torch import nn

ROWS = 20
COLUMNS = 130


class Model(nn.Module):
    def forward(self, x: torch.Tensor, limit: torch.Tensor, keep: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        above = (x > limit[:, None]) & keep
        return above, above.any(dim=1)


def get_inputs():
    return [torch.randn(ROWS, COLUMNS), torch.rand(ROWS) * 2 + 1, torch.rand(ROWS, COLUMNS) > 0.4]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 16384, "COLUMNS": 3000}}
