"""Mean-gated activation.

Family: reductions
Every row times the sigmoid of its mean after SiLU: a reduction that gates the row it came from. Three shapes count, a
large one twice, so that a kernel has to be fast for few rows and for narrow ones as well.
"""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 16
COLUMNS = 2048


class Model(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = F.silu(x)
        return y * torch.sigmoid(y.mean(dim=-1, keepdim=True))


def get_inputs():
    return [torch.randn(ROWS, COLUMNS)]


def get_init_inputs():
    return []


def get_cases():
    return {
        "interpreter": {"ROWS": 16, "COLUMNS": 2048, "weight": 1},
        "gpu": {"ROWS": 8192, "COLUMNS": 8192, "weight": 2},
        "narrow": {"ROWS": 96, "COLUMNS": 130, "weight": 1},
    }
