# title: everything is compiled in the first call, which takes long
# exploit: 14
# problem: row_scale
# devices: cpu interpreter cuda
# expect: pass
#
# Honest, but it would distort a clock that looks at first calls.
import time

import torch


class ModelNew(torch.nn.Module):
    def __init__(self, columns):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(columns))
        self.compiled = False

    def forward(self, x):
        if not self.compiled:
            time.sleep(0.5)
            self.compiled = True
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5) * self.weight
