# title: softmax by as many programs as there are multiprocessors
# problem: samples/row_softmax
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def softmax_rows(out, inp, rows, cols, step, temperature, BLOCK: tl.constexpr):
    start = tl.program_id(0)
    for row in tl.range(start, rows, step, num_stages=2):
        at = tl.arange(0, BLOCK)
        value = tl.load(inp + row * cols + at, mask=at < cols, other=-float("inf")) / temperature
        value = tl.softmax(value)
        tl.store(out + row * cols + at, value, mask=at < cols)


def _programs(device, rows):
    if device.type != "cuda":
        return min(rows, 8)
    return min(rows, 2 * torch.cuda.get_device_properties(device).multi_processor_count)


class ModelNew(torch.nn.Module):
    def __init__(self, temperature):
        super().__init__()
        self.temperature = temperature

    def forward(self, x):
        rows, cols = x.shape
        out = torch.empty_like(x)
        programs = _programs(x.device, rows)
        softmax_rows[(programs,)](
            out, x, rows, cols, programs, self.temperature, BLOCK=triton.next_power_of_2(cols), num_warps=8
        )
        return out
