"""Small problems and candidates that the bench's tests judge."""

from __future__ import annotations

from collections.abc import Callable

from judge.values import Job, Limits, Outcome, ProblemSpec, Verdict

PROBLEM = """
import torch

SIZE = 64

class Model(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(x))

def get_inputs():
    return [torch.randn(16, SIZE)]

def get_init_inputs():
    return [SIZE]
"""

SAME = PROBLEM.replace("class Model(", "class ModelNew(")


def candidate(forward: str, *, head: str = "", init: str = "") -> str:
    """A ModelNew with PROBLEM's LayerNorm; `forward` is the body's lines after `y`, the right answer, exists."""
    lines = "\n".join(f"        {line}" for line in forward.splitlines())
    inits = "\n".join(f"        {line}" for line in init.splitlines())
    return (
        f"import os, sys, time, torch\n{head}\n"
        "class ModelNew(torch.nn.Module):\n"
        "    def __init__(self, size):\n"
        "        super().__init__()\n"
        f"        self.norm = torch.nn.LayerNorm(size)\n{inits}\n"
        "    def right(self, x):\n"
        "        return torch.nn.functional.gelu(self.norm(x))\n\n"
        f"    def forward(self, x):\n{lines}\n"
    )


TRITON = """
import torch, triton, triton.language as tl

@triton.jit
def norm_gelu(x, w, b, y, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    mask = at < n
    v = tl.load(x + row * n + at, mask=mask, other=0.0)
    mean = tl.sum(v, 0) / n
    d = tl.where(mask, v - mean, 0.0)
    h = d / tl.sqrt(tl.sum(d * d, 0) / n + eps)
    h = h * tl.load(w + at, mask=mask, other=0.0) + tl.load(b + at, mask=mask, other=0.0)
    tl.store(y + row * n + at, 0.5 * h * (1 + tl.erf(h * 0.7071067811865476)), mask=mask)

class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)

    def forward(self, x):
        y = torch.empty_like(x)
        n = x.shape[-1]
        norm_gelu[(x.shape[0],)](
            x, self.norm.weight, self.norm.bias, y, n, self.norm.eps, BLOCK=triton.next_power_of_2(n)
        )
        return y
"""


def judge(
    bench,
    source: str,
    *,
    problem: str = PROBLEM,
    timing: bool = False,
    beat: float | None = None,
    incumbent: str | None = None,
    **limits: float,
) -> Outcome:
    """One evaluation; without timing unless asked, and without an audit unless timed."""
    if not timing and beat is None:
        beat = float("inf")
    bounds = Limits(**{"wall_s": 300, "stage_s": 120, **limits})
    asked = {"limits": bounds, "timing": timing, "beat": beat, "incumbent": incumbent}
    return bench.evaluate(Job("test", ProblemSpec(problem), source, **asked))


def believed(ask: Callable[[], Outcome], tries: int = 4) -> Outcome:
    """What `ask` gives; asked again where the judge's clock doubts the times, as it may while others compute."""
    for _ in range(tries - 1):
        outcome = ask()
        if outcome.verdict is not Verdict.SUSPECT:
            return outcome
    return ask()
