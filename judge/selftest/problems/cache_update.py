"""New keys written into a cache at given places; the cache is an input and is changed."""

import torch
from torch import nn

SLOTS = 40
NEW = 9
WIDTH = 24


class Model(nn.Module):
    def forward(self, cache: torch.Tensor, keys: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
        cache.index_copy_(0, places, keys)
        return cache.sum(dim=0)


def get_inputs():
    return [torch.randn(SLOTS, WIDTH), torch.randn(NEW, WIDTH), torch.randperm(SLOTS)[:NEW]]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"SLOTS": 16384, "NEW": 4000, "WIDTH": 512}}
