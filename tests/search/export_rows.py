"""Rows for export tests: one finished node with a verdict, samples and a call."""

from __future__ import annotations

from typing import Any

from judge.devices.models import Device
from judge.evaluations.models import Evaluation, Measurement
from judge.problems.models import Problem
from judge.values import canonical_hash, text_hash
from search.records.models import Node, Proposal, Run

REFERENCE = """import torch

N = 96


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return torch.relu(x) * self.scale


def get_inputs():
    return [torch.rand(5, N)]


def get_init_inputs():
    return [N]


def get_cases():
    return {"interpreter": {"N": 40}, "gpu": {"N": 4096}}
"""

KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def _relu_scale(x, scale, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < width
    value = tl.load(x + row * width + at, mask=inside)
    factor = tl.load(scale + at, mask=inside)
    tl.store(y + row * width + at, tl.maximum(value, 0.0) * factor, mask=inside)


class ModelNew(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        y = torch.empty_like(x)
        width = x.shape[-1]
        _relu_scale[(x.numel() // width,)](x, self.scale, y, width, BLOCK=triton.next_power_of_2(width))
        return y
"""


def make_node(
    *,
    source: str = KERNEL,
    reference: str = REFERENCE,
    title: str = "Relu scale",
    device: dict[str, Any] | None = None,
    evaluation: dict[str, Any] | None = None,
    node: dict[str, Any] | None = None,
    run: dict[str, Any] | None = None,
) -> Node:
    """A told node; `evaluation` None gives a modelled pass, {} none at all."""
    problem = Problem.objects.create(
        slug="relu-scale", title=title, source=reference, source_hash=text_hash(reference), origin="sample"
    )
    place = Device.objects.create(
        **{"name": "interpreter", "kind": "interpreter", "title": "Interpreter", "arch": "sm_90", **(device or {})}
    )
    row = Run.objects.create(
        **{"problem": problem, "device": place, "proposer": "builtin", "seed": 5, "state": "finished", **(run or {})}
    )
    root = Node.objects.create(run=row, number=0, kind="root", state="told", told_order=1)
    verdict = None if evaluation == {} else _evaluation(problem, place, source, evaluation or {})
    made = Node.objects.create(
        **{
            "run": row,
            "number": 4,
            "parent": root,
            "kind": "large",
            "state": "told",
            "told_order": 2,
            "source": source,
            "source_hash": canonical_hash(source),
            "evaluation": verdict,
            **(node or {}),
        }
    )
    Proposal.objects.create(node=made, proposer="openai", model="tiny", prompt="Write it.", reply="Here you are.")
    return Node.objects.get(pk=made.pk)  # as a view gets it


def _evaluation(problem: Problem, device: Device, source: str, changes: dict[str, Any]) -> Evaluation:
    values = {
        "verdict": "pass",
        "stage": "timing",
        "loads": True,
        "protocol": "judge/1",
        "toolchain": "torch 2.13.0 triton 3.7.1 sm_90",
        "speedup": 1.8,
        "speedup_low": 1.1,
        "speedup_high": 2.6,
        "speedup_n": 1,
        "basis": "modelled",
        "audit": "passed",
        "report": {"environment": {"sandbox": {"seccomp": "active"}}},
        **changes,
    }
    if values["verdict"] != "pass":
        values |= {"speedup": None, "speedup_low": None, "speedup_high": None, "speedup_n": None, "basis": ""}
        values["audit"] = ""
    row = Evaluation.objects.create(
        problem=problem, device=device, candidate_hash=canonical_hash(source), source=source, **values
    )
    if row.basis in {"modelled", "measured"}:
        Measurement.objects.create(
            evaluation=row,
            subject="candidate",
            basis=row.basis,
            method="traffic_model",
            samples_us=[3.25, 3.5],
            n=2,
            median_us=3.3,
            low_us=3.0,
            high_us=3.6,
        )
    return row
