# title: an import error whose text holds "lock" keeps its own message
# problem: samples/row_softmax
# expect: load_failed load.import
import torch
import triton
from block_scheduler_lock import Lock  # no such module

lock = Lock("softmax")


class ModelNew(torch.nn.Module):
    def forward(self, x):
        with lock:
            return torch.softmax(x, dim=-1)
