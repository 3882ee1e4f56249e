"""A plain kernel that is right. A machine where it does not pass is at fault, and blames no candidate for it.

What can be wrong is the machine's: a temporary folder that children cannot use, no compiler or headers, a driver that
does not fit. Every kernel would then be called broken. Standard library only.
"""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path

from judge.bench.processes.artefacts import read_json, write_json
from judge.bench.processes.children import temporary_place
from judge.bench.processes.known_problem import KNOWN, KNOWN_RIGHT
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, Verdict

KERNEL = """import torch
import triton
import triton.language as tl


@triton.jit
def add_one(x, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = at < count
    tl.store(y + at, tl.load(x + at, mask=mask) + 1, mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        add_one[(triton.cdiv(x.numel(), 128),)](x, y, x.numel(), BLOCK=128)
        return y
"""
RECORD = "proven.json"  # in the folder of compiled kernels
LIMITS = Limits(wall_s=120.0, stage_s=60.0)
RIGHT = (Verdict.PASS, Verdict.COMPILED_ONLY)
ADVICE = "Run `python -m judge.doctor` (or manage.py judge_doctor) as the account that judges: it says what to change."


def prove(bench: Bench, record: Path | None = None) -> None:
    """Let the known kernel be the first outcome of `bench`. Raises JudgeError where it does not pass.

    `record`: a file that remembers where it passed; the same toolchain, GPU, account and temporary folder are not
    asked again.
    """
    place = _place(bench)
    known = (read_json(record) or {}) if record is not None else {}
    if place in known:
        return
    fault = fault_of(bench)
    if fault:
        raise JudgeError(f"this machine cannot judge now: {fault}. No candidate was judged. {ADVICE}")
    if record is not None:
        record.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_json(record, {**known, place: str(bench.facts()["toolchain"])})


def fault_of(bench: Bench) -> str:
    """How the known kernel ended on `bench` if not as it must; empty when it passed. Raises JudgeError where nothing
    can be judged at all."""
    source = KNOWN_RIGHT if bench.device == "cpu" else KERNEL  # that device has no Triton
    outcome = bench.evaluate(Job("known", KNOWN, source, limits=LIMITS, timing=False, beat=math.inf))
    if outcome.verdict in RIGHT:
        return ""
    how = f"{outcome.verdict} {outcome.reason}".strip()
    return f"a known right kernel ended {how} in stage {outcome.stage}: {outcome.message[:600] or 'without a message'}"


def _place(bench: Bench) -> str:
    """What decides whether it passes, as one name."""
    parts = (bench.device, bench.identity, bench.facts()["toolchain"], os.geteuid(), temporary_place())
    return hashlib.sha256(repr([str(part) for part in parts]).encode()).hexdigest()[:32]
