# title: LSTM cell, one row a program, helper functions for the gates
# problem: lstm_cell
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def tanh(x):
    return 2.0 * tl.sigmoid(2.0 * x) - 1.0


@triton.jit
def gate(ptr, bias, row, which: tl.constexpr, cols, mask, width):
    at = which * width + cols
    return tl.load(ptr + row * 4 * width + at, mask=mask, other=0.0) + tl.load(bias + at, mask=mask, other=0.0)


@triton.jit
def lstm_pointwise(gates, bias, cell, hidden_out, cell_out, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    mask = cols < width
    i = tl.sigmoid(gate(gates, bias, row, 0, cols, mask, width))
    f = tl.sigmoid(gate(gates, bias, row, 1, cols, mask, width))
    g = tanh(gate(gates, bias, row, 2, cols, mask, width))
    o = tl.sigmoid(gate(gates, bias, row, 3, cols, mask, width))
    c = f * tl.load(cell + row * width + cols, mask=mask, other=0.0) + i * g
    tl.store(cell_out + row * width + cols, c, mask=mask)
    tl.store(hidden_out + row * width + cols, o * tanh(c), mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.zeros(4 * width))

    def forward(self, gates, cell):
        batch, width = cell.shape
        hidden, new = torch.empty_like(cell), torch.empty_like(cell)
        lstm_pointwise[(batch, triton.cdiv(width, 128))](gates, self.bias, cell, hidden, new, width, BLOCK=128)
        return hidden, new
