"""A sigmoid gate over a vector: from launch-bound to bandwidth-bound by its size alone."""

import torch

SIZE = 1 << 12


class Model(torch.nn.Module):
    def forward(self, x, y):
        return torch.sigmoid(x) * y


def get_inputs():
    return [torch.randn(SIZE), torch.randn(SIZE)]


def get_init_inputs():
    return []


def get_cases():
    return {
        "16k": {"SIZE": 1 << 14},
        "256k": {"SIZE": 1 << 18},
        "1M": {"SIZE": 1 << 20},
        "4M": {"SIZE": 1 << 22},
        "16M": {"SIZE": 1 << 24},
        "64M": {"SIZE": 1 << 26},
        "256M": {"SIZE": 1 << 28},
    }
