"""Answers of the stub endpoint: right kernels for any problem, made from the prompt itself."""

from __future__ import annotations

import re
from typing import Any

from search.proposers.exchange import fenced_blocks

TAIL = """

import torch
import triton
import triton.language as tl

BLOCK = {block}


@triton.jit
def _copy(source, target, n, SIZE: tl.constexpr):
    at = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    inside = at < n
    tl.store(target + at, tl.load(source + at, mask=inside), mask=inside)


class ModelNew(Reference):
    def forward(self, *args):
        value = super().forward(*args)
        if not isinstance(value, torch.Tensor) or not value.is_contiguous():
            return value
        result = torch.empty_like(value)
        count = value.numel()
        _copy[(triton.cdiv(count, BLOCK),)](value, result, count, SIZE=BLOCK)
        return result
"""


def whole_module(reference: str, block: int) -> str:
    """The reference's own operators, then a Triton copy of the result."""
    renamed = re.sub(r"\bModel\b(?=\s*[(:,])", "Reference", reference)
    return renamed + TAIL.format(block=block)


def answer_prompt(body: dict[str, Any]) -> str:
    """The reply to a large or small prompt; `BLOCK` depends on how many kernels the prompt shows."""
    prompt = body["messages"][-1]["content"]
    blocks, _, _ = fenced_blocks(prompt)
    found = re.findall(r"^BLOCK = (\d+)$", prompt, re.MULTILINE)
    if "small patches" in prompt.split("\n", 1)[0] and found:
        size = int(found[-1])
        new = 64 if size >= 4096 else size * 2
        return f"PATCH 1: another tile\n<<<<<<< OLD\nBLOCK = {size}\n=======\nBLOCK = {new}\n>>>>>>> NEW\n"
    reference = next((block for block in blocks if re.search(r"^class Model\b", block, re.MULTILINE)), "")
    if not reference:
        return "I am a stub: I found no reference in this prompt."
    module = whole_module(reference, 64 << (len(found) % 6))
    return f"Summary: the reference with a Triton copy at its end\n\n```python\n{module}```\n"
