"""A GPU with a history, as rows: reports, verdicts of several kinds and samples that spread as real ones do."""

from __future__ import annotations

import random
from typing import Any

from django.utils import timezone

from judge.devices.models import Device
from judge.evaluations.models import Evaluation, Measurement
from judge.problems.models import Problem, SealedSet
from judge.problems.sealing import RULES
from judge.values import PROTOCOL, text_hash

TOOLCHAIN = "torch 2.11.0 triton 3.6.0 sm_90"
SOURCE = '''"""Row softmax."""
import torch

ROWS = 16384


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x / 0.7, dim=-1)


def get_inputs():
    return [torch.randn(ROWS, 5000)]


def get_init_inputs():
    return []
'''
CANDIDATE = """import torch
import triton
import triton.language as tl


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x
"""
LAYERS = {"namespaces": "active", "landlock": "active (abi 7)", "seccomp": "active", "memory_limit": "off"}


def gpu(**changes: Any) -> Device:
    """An H200 as cuda:0."""
    facts = {
        "uuid": "GPU-1b2c", "memory_mb": 143771, "driver": "580.159.04",
        "measured": {"dram_gb_s": 4390.0, "at": "2026-11-20T10:00:00+00:00"},
    }  # fmt: skip
    given = {"kind": "cuda", "title": "NVIDIA H200", "arch": "sm_90", "facts": facts, "seen_at": timezone.now()}
    device, _ = Device.objects.update_or_create(name="cuda:0", defaults=given | changes)
    return device


def report(**changes: Any) -> dict[str, Any]:
    """A stored preflight of row softmax on that GPU."""
    out = {"shape": [16384, 5000], "dtype": "float32", "stride": [5000, 1]}
    nodes = [
        {"name": "x", "op": "input", "target": "0", "args": [], "kwargs": {}, "out": out, "outs": []},
        {"name": "div", "op": "aten.div.Tensor", "args": [{"node": "x"}, 0.7], "kwargs": {}, "out": out, "outs": []},
        {"name": "s", "op": "aten.softmax.int", "args": [{"node": "div"}, -1], "kwargs": {}, "out": out, "outs": []},
    ]
    stages = [
        {"name": name, "state": "ok", "wall_ms": 12.0, "detail": "", "fix": ""}
        for name in (
            "shapes",
            "construct",
            "inputs",
            "reference",
            "output",
            "graph",
            "cost",
            "worth",
            "algebra",
            "null",
        )
    ]
    given = {
        "state": "admitted", "reason": "", "message": "", "case": "gpu", "cases": ["gpu"], "stages": stages,
        "flaws": [], "inputs": [out], "outputs": [out], "flops": 491520000.0, "compulsory_bytes": 655360000.0,
        "roofline": {
            "target": "sm_90", "title": "NVIDIA H100 SXM", "dram_gb_s": 4390.0, "peak_tflops": 67.0, "kind": "fp32",
            "memory_us": 149.3, "compute_us": 7.3, "source": "measured", "bound_us": 149.3, "bound": "memory",
        },
        "eager": {"median_us": 447.8, "low_us": 446.0, "high_us": 449.1, "n": 32, "modelled": False},
        "eager_us": 447.8, "graph": {"nodes": nodes},
        "environment": {"at": "2026-11-20T10:00:00+00:00"},
    }  # fmt: skip
    return given | changes


def problem(slug: str = "row-softmax", **changes: Any) -> Problem:
    """Row softmax, admitted on cuda:0."""
    source = SOURCE + f"# {slug}\n"
    given = {
        "slug": slug, "title": "Softmax over rows", "family": "reductions", "source": source, "origin": "upload",
        "source_hash": text_hash(source), "state": "admitted", "admission": {"cuda:0": report()},
    }  # fmt: skip
    return Problem.objects.create(**(given | changes))


def flagged(slug: str = "sum-max-mean") -> Problem:
    """A degenerate problem with two flaws."""
    flaws = [
        {
            "code": "problem.dead_ops", "flags": True, "fix": "Remove such operators.",
            "message": "4 operators have nothing to do: max, mean, logsumexp, logsumexp.",
        },
        {
            "code": "problem.collapses", "flags": True, "fix": "Keep the results of the product.",
            "message": "Of the results of linear only sums of 8,192 are used.",
        },
    ]  # fmt: skip
    found = report(state="degenerate", reason="problem.dead_ops", message=flaws[0]["message"], flaws=flaws)
    return problem(slug, title="Sum, max, mean", state="degenerate", admission={"cuda:0": found})


def passed(of: Problem, device: Device, us: float, *, eager_us: float = 447.8, audit: str = "passed") -> Evaluation:
    """A pass with samples of the kernel, the one before it, eager and torch.compile."""
    speedup = eager_us / us
    stages = [
        ("parse", 9), ("load", 210), ("compile", 480), ("smoke", 30), ("correctness", 190), ("timing", 420),
        ("audit.state", 700), ("audit.launches", 240), ("audit.share", 35), ("audit.sealed", 510), ("audit", 1500),
    ]  # fmt: skip
    evaluation = judged(
        of,
        device,
        "pass",
        audit=audit,
        speedup=speedup,
        speedup_low=speedup * 0.985,
        speedup_high=speedup * 1.012,
        speedup_n=64,
        basis="measured",
        report={
            "stages": [{"name": name, "state": "ok", "wall_ms": ms, "detail": "", "fix": ""} for name, ms in stages],
            "speedup": {"value": speedup, "call": "faster" if speedup > 1.01 else "slower"},
            "speedup_compile": _ratio(219.1 / us, over="compile", call=""),
            "versus_incumbent": _ratio(1.002, over="incumbent", call="ambiguous"),
            "cases": [_round(family) for family in ("given", "given", "centred", "scaled", "adversarial")],
            "findings": FINDINGS,
            "kernels": [{"name": "softmax_rows", "grid": [16384], "num_warps": 8, "num_stages": 3, "regs": 40,
                         "spills": 0, "shared_bytes": 1032}],
            "environment": _environment(),
            "log": "candidate prints\n\x1b[31mred\x1b[0m\n",
        },
    )  # fmt: skip
    for subject, middle in (("candidate", us), ("incumbent", us), ("eager", eager_us), ("compile", 219.1)):
        _measure(evaluation, subject, middle)
    return evaluation


def judged(of: Problem, device: Device, verdict: str, **changes: Any) -> Evaluation:
    """One verdict; without `changes` one that ended at the correctness stage."""
    given = {
        "candidate_hash": f"{Evaluation.objects.count():064x}", "source": CANDIDATE, "protocol": PROTOCOL,
        "toolchain": TOOLCHAIN, "stage": "audit" if verdict == "pass" else "correctness",
        "reason": "" if verdict == "pass" else "value.mismatch", "loads": True, "wall_ms": 2840.0,
        "message": "" if verdict == "pass" else "output 0, inputs 'centred': RMS error 0.3 of the output's spread",
        "report": {} if verdict == "pass" else {"environment": _environment()},
    }  # fmt: skip
    return Evaluation.objects.create(problem=of, device=device, verdict=verdict, **(given | changes))


FINDINGS = [
    {"code": "time.trusted", "message": "8 calls on different content took 243.1 us each by the judge's own clock",
     "data": {}},
    {"code": "library.share", "message": "22% of the time is in its own Triton kernels (traced)", "data": {}},
    {"code": "profile.kernels", "message": "2 kernels in one call",
     "data": {"kernels": [["softmax_rows", 190.2, True], ["at::native::vectorized_elementwise_kernel", 53.0, False]]}},
]  # fmt: skip


def _ratio(value: float, **words: str) -> dict[str, Any]:
    return {"value": value, "low": value * 0.985, "high": value * 1.015, "n": 64, "basis": "measured", **words}


def _round(family: str) -> dict[str, Any]:
    return {"case": "gpu", "family": family, "ok": True, "error": 8e-8, "allowed": 1.5e-5, "detail": ""}


def _environment() -> dict[str, Any]:
    children = {"referee": LAYERS, "candidate": LAYERS, "eager": {**LAYERS, "landlock": "unavailable"}}
    return {"gpu": "NVIDIA H200", "cuda": "13.0", "gpu_alone_s": 0.31, "sandbox": LAYERS, "children": children}


DECLARED = [
    {"name": "gpu", "inputs": [{"shape": [16384, 5000], "dtype": "float32"}], "left_out": ""},
    {"name": "odd rows", "inputs": [{"shape": [4097, 5000], "dtype": "float32"}], "left_out": ""},
    {"name": "huge", "inputs": [{"shape": [1 << 20, 50000], "dtype": "float32"}], "left_out": "too many cases"},
]


def sealed(problem: Problem, **changes: Any) -> SealedSet:
    """A sealed set of two cases; 4097 is the secret."""
    cases = [
        {"name": "derived 1", "constants": {"ROWS": 4097}, "derived": True, "change": ""},
        {"name": "derived 2", "constants": {}, "derived": True, "change": "strided"},
    ]
    number = problem.sealed_sets.count() + 1
    return SealedSet.objects.create(problem=problem, **{"number": number, "rules": RULES, "cases": cases} | changes)


def _measure(evaluation: Evaluation, subject: str, middle: float, n: int = 64) -> Measurement:
    source = random.Random(f"{subject} {middle}")
    samples = [middle * source.lognormvariate(0, 0.012) for _ in range(n)]
    return Measurement.objects.create(
        evaluation=evaluation, subject=subject, basis="measured", method="cuda_events", samples_us=samples, n=n,
        median_us=middle, low_us=middle * 0.996, high_us=middle * 1.005,
        detail={"l2": "flushed by reading", "order": "ABBA", "sm_clock_mhz": [1965, 1980], "host_us": 31.4},
    )  # fmt: skip


def history() -> dict[str, int]:
    """A GPU that has judged a good deal; ids of the rows whose pages are worth looking at."""
    device = gpu()
    good, bad = problem(admission={device.name: report(declared=DECLARED)}), flagged()
    sealed(good)
    best = passed(good, device, 243.7)
    for us in (260.0, 301.5, 388.2, 512.4, 244.9, 270.3):
        passed(good, device, us, audit="")
    wrong = judged(good, device, "wrong")
    judged(good, device, "compile_failed", reason="compile.resources", stage="compile")
    suspicious = passed(bad, device, 28.7, eager_us=2230.0)
    return {
        "gpu": device.pk, "best_evaluation": best.pk, "wrong_evaluation": wrong.pk, "flagged_evaluation": suspicious.pk,
    }  # fmt: skip
