# title: dropout with draws of its own, another layout of the mask than the reference's
# problem: wide_dropout
# devices: cuda
# expect: pass
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, columns, p):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(columns))
        self.p = p

    def forward(self, x):
        mask = torch.rand(x.shape[::-1], device=x.device).t() >= self.p
        return x * self.scale * mask / (1 - self.p)
