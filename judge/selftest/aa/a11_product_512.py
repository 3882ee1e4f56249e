# title: a product of 512 x 512 matrices against itself
# problem: square_product
# case: 512
# devices: cuda
# incumbent: self
# comparisons: 21
# audit: no
# expect: pass
import torch


class ModelNew(torch.nn.Module):
    def forward(self, a, b):
        return torch.mm(a, b)
