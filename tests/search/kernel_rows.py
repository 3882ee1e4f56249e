"""Told kernels with chosen numbers, on any device, for tests of comparisons and of the list of winners."""

from __future__ import annotations

from typing import Any

from judge.devices.models import Device
from judge.evaluations.models import Evaluation, Measurement
from judge.problems.models import Problem
from judge.values import canonical_hash
from search.records.models import Node, Run
from tests.search.live_rows import grow, new_best
from tests.search.makers import make_problem, make_run

SOURCE = """import torch
import triton


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x * {0}
"""


def gpu(name: str = "cuda:0") -> Device:
    row, _ = Device.objects.get_or_create(
        name=name, defaults={"kind": Device.Kind.CUDA, "title": "NVIDIA H200", "arch": "sm_90"}
    )
    return row


def gpu_run(problem: str = "relu", device: str = "cuda:0", **changes: Any) -> Run:
    """A search on a GPU: its times are measured."""
    row = make_problem(problem)
    row.admission[device] = row.admission["interpreter"]
    row.save()
    return make_run(problem=row, device=gpu(device), **changes)


def kernel(
    run: Run,
    speedup: float,
    spread: float = 0.01,
    *,
    source: str = "",
    report: dict[str, Any] | None = None,
    **changes: Any,
) -> Node:
    """One told, audited kernel: `speedup` with an interval of `spread` (a share) on both sides; `changes` of its
    evaluation. Its time is 100 µs over the speedup."""
    node = grow(run, speedup=speedup)
    text = source or SOURCE.format(node.number)
    Node.objects.filter(pk=node.pk).update(source=text, source_hash=canonical_hash(text))
    values = {
        "source": text,
        "candidate_hash": canonical_hash(text),
        "basis": run.device.basis.value if run.device.basis else "",
        "speedup_low": speedup * (1 - spread),
        "speedup_high": speedup * (1 + spread),
        "toolchain": "torch 2.13.0 triton 3.7.1 sm_90",
        "report": report or {},
        **changes,
    }
    Evaluation.objects.filter(pk=node.evaluation_id).update(**values)
    if values["basis"] != "reported":
        us = 100 / speedup
        Measurement.objects.create(
            evaluation_id=node.evaluation_id,
            subject="candidate",
            basis=values["basis"],
            method="cuda_events",
            samples_us=[us] * 7,
            n=7,
            median_us=us,
            low_us=us * (1 - spread),
            high_us=us * (1 + spread),
        )
    return Node.objects.select_related("run", "evaluation").get(pk=node.pk)


def key(node: Node) -> str:
    """As addresses name it."""
    return f"{node.run_id}.{node.number}"


REPORT: dict[str, Any] = {
    "cases": [
        {"case": "plain", "family": "normal", "ok": True, "error": 1e-6, "allowed": 1e-4, "detail": ""},
        {"case": "plain", "family": "large", "ok": False, "error": 0.3, "allowed": 1e-4, "detail": "412 differ"},
    ],
    "kernels": [
        {"name": "k_0", "grid": [64], "num_warps": 4, "regs": 38, "spills": 0, "shared_bytes": 2048},
        {"name": "k_1", "grid": [64], "num_warps": 4, "regs": 96, "spills": 8, "shared_bytes": 1024},
    ],
    "stages": [{"name": "audit.sealed", "state": "ok", "wall_ms": 4.0, "detail": "3 right"}],
    "environment": {"sandbox": {"seccomp": "active", "landlock": "unavailable"}},
}


FAST = """import torch
import triton
import triton.language as tl


@triton.jit
def _softmax(x, y, width, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    value = tl.load(x + row * width + at, mask=at < width, other=-float("inf"))
    value = tl.exp(value - tl.max(value, axis=0))
    tl.store(y + row * width + at, value / tl.sum(value, axis=0), mask=at < width)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        rows, width = x.shape
        _softmax[(rows,)](x, y, width, BLOCK=triton.next_power_of_2(width))
        return y
"""


def gallery() -> dict[str, Any]:
    """Kernels worth looking at: a decided race, a tied one, a degenerate problem, modelled ones; their keys."""
    run = gpu_run("row-softmax", steps=40)
    names = ("first", "second", "best")
    texts = (FAST, FAST.replace("rows,)](", "rows,)]( "), FAST.replace("BLOCK=triton", "num_warps=8, BLOCK=triton"))
    found: dict[str, Any] = {"run": run.pk}
    for name, text, speed in zip(names, texts, (1.42, 1.9, 2.31), strict=True):
        node = kernel(run, speed, source=text + f"# {name}\n" * 2, report=REPORT)
        new_best(node)
        found[name] = key(node)
    kernel(gpu_run("row-softmax", device="cuda:1"), 1.7, report=REPORT)
    tied = gpu_run("layer-norm")
    for speed in (1.80, 1.81, 1.82):
        found["tied"] = key(kernel(tied, speed, report=REPORT))
    flagged = gpu_run("sum-max-mean")
    kernel(flagged, 40.0)
    Problem.objects.filter(pk=flagged.problem_id).update(state="degenerate")
    modelled = make_run(problem=make_problem("row-softmax"))
    for speed in (1.5, 2.2):
        found["modelled"] = key(kernel(modelled, speed, 0.3, source=FAST + f"# {speed}\n"))
    return found
