"""Cross entropy of logits against class numbers, averaged over the batch."""

import torch
import torch.nn.functional as F
from torch import nn

ROWS = 30
CLASSES = 200


class Model(nn.Module):
    def forward(self, logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits, target)


def get_inputs():
    return [torch.randn(ROWS, CLASSES), torch.randint(0, CLASSES, (ROWS,))]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"ROWS": 8192, "CLASSES": 16000}}
