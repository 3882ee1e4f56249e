# title: gated SiLU over flat memory
# problem: samples/swiglu
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def swiglu_fwd(gate_ptr, up_ptr, out_ptr, n_elements, BLOCK_SIZE: tl.constexpr):
    pid = tl.program_id(axis=0)
    block_start = pid * BLOCK_SIZE
    offsets = block_start + tl.arange(0, BLOCK_SIZE)
    mask = offsets < n_elements
    gate = tl.load(gate_ptr + offsets, mask=mask)
    up = tl.load(up_ptr + offsets, mask=mask)
    tl.store(out_ptr + offsets, gate * tl.sigmoid(gate) * up, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(gate)
        n_elements = out.numel()
        grid = lambda meta: (triton.cdiv(n_elements, meta["BLOCK_SIZE"]),)  # noqa: E731
        swiglu_fwd[grid](gate, up, out, n_elements, BLOCK_SIZE=1024)
        return out
