"""A problem and a kernel that are right on every device that works: the control after a lost evaluation."""

from __future__ import annotations

from judge.bench.device.nvml import gpu_readings
from judge.values import ProblemSpec

CROWDED = 0.2  # of a GPU's memory in other hands

KNOWN = ProblemSpec(
    """import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return x + 1


def get_inputs():
    return [torch.rand(16, 16)]


def get_init_inputs():
    return []
"""
)
AS_CANDIDATE = "\n\nclass ModelNew(Model):\n    pass\n"
KNOWN_RIGHT = KNOWN.source.replace("class Model(", "class ModelNew(")


def crowded(device: str, identity: str) -> bool:
    """Whether others hold much of the GPU's memory while nobody of ours does; so too where its driver is silent."""
    if not device.startswith("cuda"):
        return False
    found = gpu_readings().get(identity)
    if found is None or found.memory_used is None or not found.memory_total:
        return True
    return found.memory_used > CROWDED * found.memory_total
