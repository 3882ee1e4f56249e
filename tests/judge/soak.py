"""Soak: many evaluations in a row, a third of them hostile; each verdict right, nothing left behind, nothing grows.

    .venv/bin/python -m tests.judge.soak --device interpreter --count 500
    .venv/bin/python -m tests.judge.soak --device cuda:0 --count 500 --json soak.json

Exit status 1 when a verdict was wrong, something stayed, or memory, descriptors or processes grew.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from judge.bench.device.nvml import gpu_readings, gpus_here
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, Outcome, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME
from tests.judge.soak_candidates import MARK, SEGMENT, Subject, subjects

LIMITS = Limits(wall_s=300, stage_s=100, memory_mb=512)
WARM_UP = 12  # evaluations before the first sample that growth is measured from
GROWTH_BYTES = 48 << 20  # of the runner, and of each fork server: allocators settle late
PLACES = ("/tmp", "/dev/shm", "/var/tmp", "/")


@dataclass(frozen=True)
class Sample:
    """What there is of ours on the machine. Bytes; `gpu_bytes` is None where no driver tells."""

    processes: int
    runner_bytes: int
    servers_bytes: int
    files: int  # folders and files in the bench's own folder that belong to children
    descriptors: int
    shm_bytes: int  # shared memory that the runner and its children map: others write to /dev/shm, too
    segments: int  # System V shared memory with the key that hostile candidates use
    gpu_bytes: int | None = None


@dataclass
class Report:
    """Figures of a soak; empty `faults` is a pass."""

    device: str
    count: int = 0
    hostile: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    samples: list[Sample] = field(default_factory=list)
    wall_s: float = 0.0
    walls_s: dict[str, list[float]] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        names = sorted(self.walls_s, key=lambda name: -max(self.walls_s[name]))
        walls = {name: round(sum(self.walls_s[name]) / len(self.walls_s[name]), 3) for name in names}
        ends = [self.samples[0], self.samples[-1]] if self.samples else []
        return {
            "device": self.device,
            "evaluations": self.count,
            "hostile": self.hostile,
            "per_minute": round(60 * self.count / self.wall_s, 1) if self.wall_s else None,
            "verdicts": dict(self.verdicts),
            "faults": self.faults,
            "before": dataclasses.asdict(ends[0]) if ends else None,
            "after": dataclasses.asdict(ends[-1]) if ends else None,
            "most": {
                name: max((getattr(sample, name) or 0) for sample in self.samples)
                for name in (field.name for field in dataclasses.fields(Sample))
            }
            if self.samples
            else None,
            "mean_wall_s": walls,
        }


def soak(bench: Bench, *, count: int, seed: int = 0, tell: bool = False) -> Report:
    """Judge `count` candidates; every third is hostile, each kind once before any comes twice."""
    report, rng = Report(bench.device), random.Random(seed)
    friendly, hostile = subjects(bench.device)
    queues: dict[bool, list[Subject]] = {True: [], False: []}
    os.environ["SOAK_SECRET"] = "must never be seen"
    started = time.monotonic()
    _judged(bench, SAME, LIMITS.stage_s)  # everything that starts late has started
    for number in range(count):
        bad = number % 3 == 2
        if not queues[bad]:
            queues[bad] = rng.sample(hostile if bad else friendly, len(hostile if bad else friendly))
        subject = queues[bad].pop()
        begun = time.monotonic()
        fault = _fault(subject, bench, report)
        wall = time.monotonic() - begun
        report.walls_s.setdefault(subject.name, []).append(wall)
        report.count, report.hostile = number + 1, report.hostile + bad
        warm = min(WARM_UP, count // 3)
        if number in (warm, count - 1):
            bench.rest()  # how much of the GPU those who wait hold is a matter of chance: both ends are without them
        sample = sampled(bench)
        report.faults += [f"{number} {subject.name}: {text}" for text in (*fault, *_left(bench, report, sample))]
        if number >= warm:
            report.samples.append(sample)
        if tell:
            print(f"{number + 1:4}/{count} {subject.name:20} {wall:6.2f} s {'; '.join(fault)}", flush=True)
    report.wall_s = time.monotonic() - started
    report.faults += _grown(report.samples)
    return report


def _judged(bench: Bench, source: str, stage_s: float) -> Outcome:
    limits = dataclasses.replace(LIMITS, stage_s=stage_s)
    return bench.evaluate(Job("soak", ProblemSpec(PROBLEM), source, limits=limits, timing=False, beat=float("inf")))


def _fault(subject: Subject, bench: Bench, report: Report) -> list[str]:
    try:
        outcome = _judged(bench, subject.source, subject.stage_s)
    except JudgeError as error:
        report.verdicts["lost"] += 1
        return [f"the judge failed: {error}"]
    report.verdicts[outcome.verdict] += 1
    faults = []
    if outcome.verdict not in subject.verdicts:
        faults.append(f"{outcome.verdict} {outcome.reason}: {outcome.message[:300]}")
    if subject.said and subject.said not in outcome.log and outcome.verdict is Verdict.PASS:
        faults.append(f"its output lacks {subject.said!r}: {outcome.log[:200]!r}")
    if subject.unsaid and subject.unsaid in outcome.log:
        faults.append(f"its output has {subject.unsaid!r}: {outcome.log[:400]!r}")
    if len(outcome.log) > LIMITS.output_bytes + 200:
        faults.append(f"{len(outcome.log)} characters of output were kept")
    return faults


def _left(bench: Bench, report: Report, sample: Sample) -> list[str]:
    """What the evaluation left on the machine."""
    first = report.samples[0] if report.samples else None
    faults = []
    if first is not None and sample.processes != first.processes:
        faults.append(f"{sample.processes} processes instead of {first.processes}")
    if first is not None and sample.files != first.files:
        faults.append(f"{sample.files} children's files instead of {first.files}")
    if sample.segments:
        faults.append(f"{sample.segments} shared memory segments stayed")
    faults += [f"{path} was made" for place in PLACES for path in Path(place).glob(f"{MARK}*")]
    return faults


def _grown(samples: list[Sample]) -> list[str]:
    if len(samples) < 2:
        return []
    first, last, faults = samples[0], samples[-1], []
    for name, allowed in (("runner_bytes", GROWTH_BYTES), ("servers_bytes", 3 * GROWTH_BYTES), ("shm_bytes", 1 << 20)):
        grown = getattr(last, name) - getattr(first, name)
        if grown > allowed:
            faults.append(f"{name} grew by {grown / 2**20:.0f} MiB")
    if last.descriptors > first.descriptors:
        faults.append(f"descriptors grew from {first.descriptors} to {last.descriptors}")
    if last.gpu_bytes is not None and first.gpu_bytes is not None and last.gpu_bytes - first.gpu_bytes > 256 << 20:
        faults.append(f"GPU memory grew by {(last.gpu_bytes - first.gpu_bytes) / 2**20:.0f} MiB")
    return faults


def sampled(bench: Bench) -> Sample:
    """Look at the machine now."""
    bench.settle()  # a killed process with a CUDA context takes a moment
    waiting = bench.waiting()  # how many there are depends on the last problem and on chance
    tree = [pid for pid in descendants(os.getpid()) if pid not in {child.pid for child in waiting}]
    root, theirs = bench._root, {child.folder for child in waiting}
    own = [path for path in root.iterdir() if path.is_dir() and path.name[-1].isdigit()] if root else []
    own = [path for path in own if path not in theirs]
    return Sample(
        processes=len(tree),
        runner_bytes=_resident(os.getpid()),
        servers_bytes=sum(_resident(pid) for pid in tree),
        files=sum(1 for folder in own for _ in folder.rglob("*")) if own else 0,
        descriptors=len(os.listdir("/proc/self/fd")) - 2 * len(waiting),  # noqa: PTH208 - a channel and a log each
        shm_bytes=sum(_resident(pid, "RssShmem") for pid in (os.getpid(), *tree)),
        segments=sum(line.split()[0] == str(SEGMENT) for line in Path("/proc/sysvipc/shm").read_text().splitlines()),
        gpu_bytes=_gpu_bytes(bench.device),
    )


def descendants(pid: int) -> list[int]:
    """Living processes below `pid`."""
    found: list[int] = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            own = [int(child) for child in task.read_text().split()]
        except OSError:
            continue
        for child in own:
            found += [child, *descendants(child)]
    return found


def _resident(pid: int, kind: str = "VmRSS") -> int:
    """Bytes of this kind; 0 where the process has ended."""
    try:
        told = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        return int(told[kind].split()[0]) << 10
    except (OSError, KeyError):
        return 0


def _gpu_bytes(device: str) -> int | None:
    if not device.startswith("cuda"):
        return None
    uuid = next((gpu.uuid for gpu in gpus_here() if f"cuda:{gpu.ordinal}" == device), "")
    reading = gpu_readings().get(uuid)
    return reading.memory_used << 20 if reading and reading.memory_used is not None else None


def main() -> int:
    parser = argparse.ArgumentParser(description="Many evaluations in a row, a third of them hostile.")
    parser.add_argument("--device", default="interpreter", help="interpreter, cuda:N or cpu")
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--target", default="sm_90")
    parser.add_argument("--json", type=Path, help="also write the figures there")
    options = parser.parse_args()
    with Bench(options.device, target=options.target, alternatives=False) as bench:
        bench.facts()
        report = soak(bench, count=options.count, seed=options.seed, tell=True)
    after = [path.name for path in Path(tempfile.gettempdir()).glob(f"adaexplore-bench-{os.getpid()}-*")]
    report.faults += [f"{name} stayed after the end" for name in after]
    report.faults += [f"process {pid} stayed after the end" for pid in descendants(os.getpid())]
    text = json.dumps(report.to_json(), indent=1)
    print(text)
    if options.json:
        options.json.write_text(text + "\n")
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
