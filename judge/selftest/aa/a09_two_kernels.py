# title: torch's own row kernels, several launches, against themselves
# problem: row_scale
# case: gpu
# devices: cuda
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))

    def forward(self, x):
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight
