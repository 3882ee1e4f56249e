"""A product of two square matrices in fp32."""

import torch

SIZE = 64


class Model(torch.nn.Module):
    def forward(self, a, b):
        return a @ b


def get_inputs():
    return [torch.randn(SIZE, SIZE), torch.randn(SIZE, SIZE)]


def get_init_inputs():
    return []


def get_cases():
    return {
        "512": {"SIZE": 512},
        "1k": {"SIZE": 1024},
        "2k": {"SIZE": 2048},
        "4k": {"SIZE": 4096},
        "5k": {"SIZE": 5120},
        "6k": {"SIZE": 6400},
        "9k": {"SIZE": 9216},
    }
