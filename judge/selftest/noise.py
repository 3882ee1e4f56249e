"""How far apart a device puts two measurements of one kernel: its noise floor.

A kernel that is known to be right meets itself, in fresh processes and through the whole judge; any difference
is the device's own.
"""

from __future__ import annotations

import dataclasses
import math
import statistics
import uuid
from collections.abc import Sequence
from dataclasses import dataclass

from judge.bench.device.statistics import median_interval
from judge.bench.runner import Bench
from judge.selftest.entries import FOLDERS, HERE, Corpus, Entry, read_entry
from judge.values import Job, Outcome, Subject, Verdict

KERNEL = "a05_gate_16M"  # 0.2 GB through memory: long enough for events, over in a moment
CASE = "16M"
ROUNDS = 3  # fresh pairs of processes: a process has luck of its own
NORMAL = 1.4826  # standard deviations in the median distance of normal values


class NotRight(Exception):
    """The device did not pass a kernel that is right; the message says how it ended."""


@dataclass(frozen=True)
class Noise:
    """Pairs of a kernel and its twin. `floor` is the robust standard deviation of the logarithm of their ratios around
    zero, where they belong: chance within a pair and a bias between processes both count. `ratio` is their median,
    with a 99.8 % interval."""

    floor: float
    ratio: float
    low: float
    high: float
    n: int
    kernel_us: float

    def __post_init__(self) -> None:
        if not (self.floor >= 0 and 0 < self.low <= self.ratio <= self.high and math.isfinite(self.high)):
            raise ValueError("a noise floor is not negative, and its interval holds the median")
        if self.n < 1 or self.kernel_us <= 0:
            raise ValueError("a noise floor comes from pairs of positive times")


def noise_of(pairs: Sequence[tuple[float, float]]) -> Noise:
    """The noise in pairs of (kernel, twin) times in microseconds. Raises ValueError without pairs."""
    ratios = [twin / kernel for kernel, twin in pairs]
    low, middle, high = median_interval(ratios)
    floor = NORMAL * statistics.median(abs(math.log(ratio)) for ratio in ratios)
    return Noise(floor, middle, low, high, len(ratios), statistics.median(kernel for kernel, _ in pairs))


def calibration_kernel(*, timed: bool) -> Entry:
    """The kernel and its problem: at full size, or where nothing is timed as small as the problem is by itself."""
    entry = read_entry(HERE / FOLDERS[Corpus.AA] / f"{KERNEL}.py", Corpus.AA)
    problem = dataclasses.replace(entry.problem, case=CASE if timed else None)
    return dataclasses.replace(entry, problem=problem, incumbent=entry.candidate if timed else None)


def measure_noise(bench: Bench, entry: Entry, *, rounds: int = ROUNDS) -> Noise:
    """Let the kernel meet its twin `rounds` times. Raises NotRight, and JudgeError for a fault of the judge."""
    pairs: list[tuple[float, float]] = []
    for _ in range(rounds):
        times = {timing.subject: timing.samples_us for timing in check_right(bench, entry).timings}
        if Subject.INCUMBENT not in times:
            raise NotRight("the kernel was not measured beside its twin")
        pairs += zip(times[Subject.CANDIDATE], times[Subject.INCUMBENT], strict=True)
    return noise_of(pairs)


def check_right(bench: Bench, entry: Entry) -> Outcome:
    """Judge the kernel once. Raises NotRight unless it passes, and JudgeError for a fault of the judge."""
    job = Job(
        id=uuid.uuid4().hex,
        problem=entry.problem,
        candidate=entry.candidate,
        limits=entry.limits,
        timing=entry.incumbent is not None,
        beat=math.inf,
        incumbent=entry.incumbent,
    )
    outcome = bench.evaluate(job)
    if outcome.verdict is not Verdict.PASS:
        raise NotRight(f"a kernel that is right ended as {outcome.verdict} ({outcome.reason}): {outcome.message}")
    return outcome
