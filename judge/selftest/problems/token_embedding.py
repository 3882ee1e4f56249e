"""Rows of a table picked by token, plus a row for the position, scaled."""

import torch
from torch import nn

BATCH = 3
LENGTH = 20
WORDS = 101
WIDTH = 48


class Model(nn.Module):
    def __init__(self, words: int, length: int, width: int) -> None:
        super().__init__()
        self.token = nn.Embedding(words, width)
        self.position = nn.Embedding(length, width)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        places = torch.arange(tokens.shape[1], device=tokens.device)
        return self.token(tokens) * self.token.embedding_dim**0.5 + self.position(places)


def get_inputs():
    return [torch.randint(0, WORDS, (BATCH, LENGTH))]


def get_init_inputs():
    return [WORDS, LENGTH, WIDTH]


def get_cases():
    return {"gpu": {"BATCH": 16, "LENGTH": 1024, "WORDS": 32000, "WIDTH": 768}}
