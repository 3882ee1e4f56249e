"""Small problems for the rules of the correctness rounds, and one evaluation of them without timing or audit."""

from __future__ import annotations

import math

from judge.bench.runner import Bench
from judge.values import DEFAULT_POLICY, Job, Limits, Outcome, Policy, ProblemSpec

LIMITS = Limits(wall_s=300, stage_s=120)


def problem(forward: str, *, inputs: str = "torch.randn(16, 64)", init: str = "", head: str = "") -> str:
    """A problem whose `forward(self, *x)` has these lines; `init` are lines of the constructor."""
    lines = "\n".join(f"        {line}" for line in forward.splitlines())
    inits = "\n".join(f"        {line}" for line in init.splitlines())
    return (
        f"import torch\nimport torch.nn.functional as F\n{head}\n"
        "class Model(torch.nn.Module):\n"
        "    def __init__(self):\n"
        f"        super().__init__()\n{inits}\n"
        f"    def forward(self, *x):\n{lines}\n\n"
        f"def get_inputs():\n    return [{inputs}]\n\n"
        "def get_init_inputs():\n    return []\n"
    )


def answer(source: str, forward: str | None = None, **replaced: str) -> str:
    """The problem's own model as a candidate, with another forward body or with texts replaced."""
    text = source.replace("class Model(", "class ModelNew(")
    if forward is not None:
        before, _, rest = text.partition("    def forward(self, *x):\n")
        lines = "\n".join(f"        {line}" for line in forward.splitlines())
        text = f"{before}    def forward(self, *x):\n{lines}\n\ndef get_inputs{rest.partition('def get_inputs')[2]}"
    for old, new in replaced.items():
        text = text.replace(old, new)
    return text


def ask(bench: Bench, source: str, candidate: str, *, policy: Policy = DEFAULT_POLICY, timing: bool = False) -> Outcome:
    """One evaluation. Nothing beats infinity, so no audit follows."""
    spec = ProblemSpec(source, policy=policy)
    return bench.evaluate(Job("rule", spec, candidate, limits=LIMITS, timing=timing, beat=math.inf))


def codes(outcome: Outcome) -> dict[str, str]:
    """Findings by code."""
    return {finding.code: finding.message for finding in outcome.findings}
