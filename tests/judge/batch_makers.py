"""Jobs, keys and outcomes for the tests of the batch road."""

from __future__ import annotations

import re
from typing import Any

from judge.batch.lines import SentJob, outcome_line, read_job
from judge.devices.keys import DeviceKey
from judge.values import Audit, Basis, Job, Outcome, ProblemSpec, SealedCase, Speedup, Subject, Timing, Verdict
from tests.judge.bench_problems import PROBLEM, SAME

KEY = DeviceKey("lab", "ab" * 32)
OTHER = DeviceKey("other", "cd" * 32)
CANARY = "sealed-canary-7431"
SEALED = (SealedCase(CANARY, {"SIZE": 7431}),)
MARK: dict[str, Any] = {
    "device": "cuda:0", "kind": "cuda", "arch": "sm_90", "toolchain": "torch 2.13 triton 3.7 sm_90",
    "gpu": {"uuid": "GPU-1", "title": "NVIDIA H200", "memory_mb": 143771, "driver": "570.1"},
}  # fmt: skip


def tells_sealed(text: str) -> bool:
    """Whether the sealed case's name or its number stands anywhere; digits of a time are no number of ours."""
    return CANARY in text or bool(re.search(r"(?<![\d.e-])7431(?![\d.])", text))


def job(name: str = "a", candidate: str = SAME, **changes: Any) -> Job:
    return Job(**{"id": name, "problem": ProblemSpec(PROBLEM, sealed=SEALED), "candidate": candidate} | changes)


def passed(speedup: float = 2.0, basis: Basis = Basis.MEASURED) -> Outcome:
    """An audited pass with times."""
    samples = (10.0, 11.0, 12.0)
    return Outcome(
        Verdict.PASS,
        stage="timing",
        loads=True,
        timings=(
            Timing(Subject.CANDIDATE, basis, "cuda_events", samples, 11.0, 10.0, 12.0),
            Timing(Subject.EAGER, basis, "cuda_events", samples, 11.0, 10.0, 12.0),
        ),
        speedup=Speedup(speedup, speedup * 0.9, speedup * 1.1, 3, basis),
        audit=Audit.PASSED,
        environment={"device": "cuda:0"},
    )


def answered(
    sent: SentJob | bytes, outcome: Outcome | None = None, *, key: DeviceKey | None = KEY, **mark: Any
) -> bytes:
    """The signed line that answers a job."""
    sent = read_job(sent, None) if isinstance(sent, bytes) else sent
    return outcome_line(
        sent, outcome or passed(), fingerprint=MARK | mark, judged_at="2026-12-02T10:00:00+00:00", key=key
    )
