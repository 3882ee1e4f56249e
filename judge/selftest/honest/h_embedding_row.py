# title: one token a program, its table row and its position's row
# problem: token_embedding
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def embed(tokens_ptr, table_ptr, positions_ptr, out_ptr, length, width, scale, BLOCK: tl.constexpr):
    pid = tl.program_id(0)
    token = tl.load(tokens_ptr + pid)
    place = pid % length
    cols = tl.arange(0, BLOCK)
    mask = cols < width
    word = tl.load(table_ptr + token * width + cols, mask=mask)
    position = tl.load(positions_ptr + place * width + cols, mask=mask)
    tl.store(out_ptr + pid * width + cols, word * scale + position, mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.token = torch.nn.Embedding(words, width)
        self.position = torch.nn.Embedding(length, width)

    def forward(self, tokens):
        batch, length = tokens.shape
        width = self.token.embedding_dim
        out = torch.empty((batch, length, width), device=tokens.device, dtype=self.token.weight.dtype)
        embed[(batch * length,)](
            tokens, self.token.weight, self.position.weight, out, length, width, width**0.5,
            BLOCK=triton.next_power_of_2(width),
        )  # fmt: skip
        return out
