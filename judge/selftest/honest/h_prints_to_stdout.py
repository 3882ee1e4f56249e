# title: a kernel whose module and forward print, as left over from debugging
# problem: samples/row_softmax
# expect: pass
import logging
import sys

import torch
import triton
import triton.language as tl

print("loading the candidate ...", file=sys.stdout)
logging.basicConfig(level=logging.INFO)


@triton.jit
def softmax_kernel(x, y, n, t, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    v = tl.load(x + row * n + at, mask=at < n, other=-float("inf")) / t
    v = tl.exp(v - tl.max(v, 0))
    tl.store(y + row * n + at, v / tl.sum(v, 0), mask=at < n)


class ModelNew(torch.nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature
        print(f"temperature = {temperature}", flush=True)

    def forward(self, x):
        print('{"verdict": "running", "shape": ' + str(list(x.shape)) + "}")
        logging.getLogger(__name__).info("launching %d programs", x.shape[0])
        y = torch.empty_like(x)
        softmax_kernel[(x.shape[0],)](x, y, x.shape[1], self.temperature, BLOCK=triton.next_power_of_2(x.shape[1]))
        sys.stdout.write("done\n")
        return y
