"""Small problem sources around one forward, and what the interpreter's preflight says about them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from judge.bench.admission.admission import admit
from judge.bench.foreign.loading import load_problem
from judge.values import DEFAULT_POLICY, AdmissionReport, Policy, StageRecord

HEAD = """import torch
import torch.nn as nn
import torch.nn.functional as F

SIZE = 16
"""
TAIL = """
def get_inputs():
    return [torch.randn(SIZE, 32)]

def get_init_inputs():
    return []
"""


def module(forward: str, init: str = "", tail: str = TAIL, head: str = HEAD) -> str:
    """A source whose Model has `init` in its constructor and `forward(self, x)`."""
    lines = [head, "class Model(nn.Module):", "    def __init__(self):", "        super().__init__()"]
    lines += [f"        {line}" for line in init.splitlines()]
    lines += ["    def forward(self, x):", *(f"        {line}" for line in forward.splitlines()), tail]
    return "\n".join(lines)


def inputs(*shapes: str) -> str:
    """A tail whose get_inputs() draws tensors of these shapes, such as "4, 3, 8, 8"."""
    drawn = ", ".join(f"torch.randn({shape})" for shape in shapes)
    return f"\ndef get_inputs():\n    return [{drawn}]\n\ndef get_init_inputs():\n    return []\n"


def examine(
    source: str,
    folder: Path,
    case: str | None = None,
    policy: Policy = DEFAULT_POLICY,
    send: Callable[[StageRecord], None] = lambda stage: None,
) -> AdmissionReport:
    """The preflight of `source` on the interpreter, in this process."""
    return admit(load_problem(source, case, folder), "interpreter", send, "sm_90", policy)
