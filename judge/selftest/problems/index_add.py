"""Weighted rows added up where their index says; several rows share a place."""

import torch
from torch import nn

EDGES = 60
NODES = 17
WIDTH = 20


class Model(nn.Module):
    def forward(self, x: torch.Tensor, weight: torch.Tensor, where: torch.Tensor, base: torch.Tensor) -> torch.Tensor:
        return base.index_add(0, where, x * weight[:, None])


def get_inputs():
    where = torch.randint(0, NODES, (EDGES,))
    return [torch.randn(EDGES, WIDTH), torch.rand(EDGES), where, torch.randn(NODES, WIDTH)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"EDGES": 20000, "NODES": 3000, "WIDTH": 128}}
