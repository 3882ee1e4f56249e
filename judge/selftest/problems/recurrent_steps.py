"""A recurrent network over many short steps: launching them takes longer than their work."""

import torch

STEPS = 4


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.entering = torch.nn.Linear(256, 256)
        self.kept = torch.nn.Linear(256, 256)

    def forward(self, x):
        h = torch.zeros_like(x[0])
        for step in range(x.shape[0]):
            h = torch.tanh(self.entering(x[step]) + self.kept(h))
        return h


def get_inputs():
    return [torch.randn(STEPS, 64, 256)]


def get_init_inputs():
    return []


def get_cases():
    return {"gpu": {"STEPS": 32}, "interpreter": {"STEPS": 4}}
