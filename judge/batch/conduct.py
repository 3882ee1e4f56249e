"""Judges the jobs of a file one after the other and appends their outcomes."""

from __future__ import annotations

import platform
from collections.abc import Callable, Container
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from judge.batch.files import OutcomeFile
from judge.batch.lines import BadLine, SentJob, outcome_line, read_job
from judge.bench.device.nvml import Gpu, gpus_here
from judge.devices.keys import DeviceKey
from judge.values import Job, JudgeError, Outcome, Verdict

TRIES = 3  # a fault of the judge is no verdict on the candidate
Say = Callable[[str], None]


class Judge(Protocol):
    """What is asked of a bench."""

    device: str

    def evaluate(self, job: Job) -> Outcome:
        """Judge one candidate. Raises JudgeError."""

    def facts(self) -> dict[str, object]:
        """Versions and device."""


@dataclass
class Tally:
    """What came of a job file."""

    judged: int = 0
    known: int = 0  # had their outcome already
    refused: int = 0  # lines that are no job for this device
    lost: int = 0  # the judge failed three times; counted among the judged too


def conduct(jobs: Path, out: OutcomeFile, *, bench: Judge, key: DeviceKey | None, say: Say) -> Tally:
    """Judge every job of `jobs` that has no outcome in `out` yet. A bad line is told and passed over.

    Raises JudgeError when the bench does not start, OSError when a file cannot be read or written.
    """
    tally, done = Tally(), out.finished()
    mark = fingerprint(bench)
    with jobs.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                sent = _read(line, key, done, tally)
            except BadLine as bad:
                tally.refused += 1
                say(f"line {number} is refused: {bad}")
                continue
            if sent is None:
                continue
            outcome = _evaluate(bench, sent.job)
            now = datetime.now(UTC).isoformat(timespec="seconds")
            out.append(outcome_line(sent, outcome, fingerprint=mark, judged_at=now, key=key))
            done.add((sent.job.id, sent.nonce))
            tally.judged += 1
            tally.lost += outcome.verdict is Verdict.LOST
            say(f"{sent.job.id}: {_words(outcome)}")
    return tally


def _read(line: bytes, key: DeviceKey | None, done: Container[tuple[str, str]], tally: Tally) -> SentJob | None:
    sent = read_job(line.rstrip(b"\n"), key)
    if (sent.job.id, sent.nonce) in done:
        tally.known += 1
        return None
    return sent


def _evaluate(bench: Judge, job: Job) -> Outcome:
    for attempt in range(TRIES):
        try:
            return bench.evaluate(job)
        except JudgeError as error:
            if attempt == TRIES - 1:
                return Outcome(Verdict.LOST, stage="judge", reason="judge.failed", message=str(error)[:2000])
    raise AssertionError("TRIES is positive")


def _words(outcome: Outcome) -> str:
    """The verdict in a few words. Messages are left out: they may quote the problem."""
    speedup = outcome.speedup
    figure = f" {speedup.value:.2f}× [{speedup.low:.2f}–{speedup.high:.2f}] {speedup.basis}" if speedup else ""
    return (
        f"{outcome.verdict}{f' {outcome.reason}' if outcome.reason else ''}{figure} in {outcome.wall_ms / 1000:.1f} s"
    )


def fingerprint(bench: Judge) -> dict[str, Any]:
    """What the outcomes of this run were made on. Raises JudgeError when the bench does not start."""
    facts = {name: value for name, value in bench.facts().items() if name != "sandbox"}
    gpu = _gpu_of(bench.device)
    return {
        **facts,
        "kind": bench.device.partition(":")[0],
        "arch": gpu.arch if gpu else facts["target"],
        "gpu": {"uuid": gpu.uuid, "title": gpu.title, "memory_mb": gpu.memory_mb, "driver": gpu.driver}
        if gpu
        else None,
        "kernel": platform.release(),
        "machine": platform.machine(),
    }


def _gpu_of(device: str) -> Gpu | None:
    if not device.startswith("cuda"):
        return None
    ordinal = int(device.partition(":")[2] or 0)
    found = gpus_here()
    return next((gpu for gpu in found if gpu.ordinal == ordinal), None)
