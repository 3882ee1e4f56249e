# title: embeddings over flat output memory, tables created in another order
# problem: token_embedding
# expect: pass
import torch
import triton
import triton.language as tl


@triton.jit
def embed_flat(tokens, table, positions, out, total, length, width, scale, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < total
    spot, column = at // width, at % width
    token = tl.load(tokens + spot, mask=inside, other=0)
    value = tl.load(table + token * width + column, mask=inside) * scale
    value += tl.load(positions + spot % length * width + column, mask=inside)
    tl.store(out + at, value, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, words, length, width):
        super().__init__()
        self.position = torch.nn.Embedding(length, width)
        self.token = torch.nn.Embedding(words, width)
        self.scale = width**0.5

    def forward(self, tokens):
        out = self.token.weight.new_empty(*tokens.shape, self.token.embedding_dim)
        embed_flat[(triton.cdiv(out.numel(), 1024),)](
            tokens, self.token.weight, self.position.weight, out, out.numel(), tokens.shape[1], out.shape[2],
            self.scale, BLOCK=1024,
        )  # fmt: skip
        return out
