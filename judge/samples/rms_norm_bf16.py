"""RMSNorm in bf16.

Family: reductions
Root-mean-square normalisation of bfloat16 rows, computed in fp32 and rounded once at the end.
"""

import torch
from torch import nn

TOKENS = 20
WIDTH = 768


class Model(nn.Module):
    def __init__(self, width: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter((torch.rand(width) + 0.5).to(torch.bfloat16))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight.float()).to(x.dtype)


def get_inputs():
    return [torch.randn(TOKENS, WIDTH, dtype=torch.bfloat16)]


def get_init_inputs():
    return [WIDTH, 1e-5]


def get_cases():
    return {"gpu": {"TOKENS": 16384, "WIDTH": 8192}}
