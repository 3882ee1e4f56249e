"""Points with traffic of every kind of bound, and times as a GPU with known constants would take."""

from __future__ import annotations

import math
import random
from dataclasses import replace

from judge.bench.interpreting.calibration import Constants
from judge.bench.interpreting.targets import target
from judge.bench.interpreting.timemodel import total_us
from judge.bench.interpreting.traffic import LaunchTraffic, TrafficReport
from tests.benchmarks.calibration.fitting import Pair, paired
from tests.benchmarks.calibration.records import Times, Traffic

H200 = replace(target("sm_90"), dram_gb_s=4800.0)
TRUE = Constants(
    call_us=1.0,
    launch_us=2.5,
    dram=0.9,
    l2=0.8,
    vector=0.3,
    matrix=0.4,
    own_matrix=0.15,
    reduction=0.4,
    irregular=0.3,
    latency_us=0.8,
    resident=0.5,
)
KINDS = ("short", "bytes", "sectors", "vector", "matrix", "waiting")
LIBRARY = ("mul", "mm", "amax", "topk")


def launch(kind: str, size: float) -> LaunchTraffic:
    """One launch of a candidate's kernel that `kind` bounds; `size` of 1 is some tens of microseconds."""
    amount = round(size * 1e6)
    changes = {
        "short": {"unique_bytes": 1000, "sector_bytes": 1000, "programs": 50},
        "bytes": {"unique_bytes": 100 * amount, "sector_bytes": 100 * amount},
        "sectors": {"unique_bytes": amount, "sector_bytes": 200 * amount},
        "vector": {"unique_bytes": amount, "sector_bytes": amount, "elementwise_flops": 1000 * amount},
        "matrix": {"unique_bytes": amount, "sector_bytes": amount, "dot_flops": {"tf32": 8000 * amount}},
        "waiting": {"unique_bytes": amount, "sector_bytes": amount, "programs": 8, "accesses": round(400 * size)},
    }[kind]
    return replace(LaunchTraffic("k", "triton", 13200), **changes)


def library(name: str, size: float) -> LaunchTraffic:
    """One launch of torch's."""
    amount = round(size * 1e8)
    dots = {"fp32": 1000 * amount} if name == "mm" else {}
    return LaunchTraffic(f"aten.{name}", "torch", None, amount, amount, amount, 0, dots)


def counted(problem: str, number: int, rows: list[LaunchTraffic], eager: list[LaunchTraffic]) -> Traffic:
    name = f"{problem}_{number}@large"
    return Traffic(name, "d", problem, "sm_90", TrafficReport(tuple(rows)), TrafficReport(tuple(eager)))


def timed(traffic: Traffic, candidate_us: float, eager_us: float) -> Times:
    return Times(
        traffic.id, traffic.digest, candidate_us, eager_us, 40, "NVIDIA H200", "sm_90", "torch 2", "2026-11-22"
    )


def corpus(constants: Constants = TRUE, *, noise: float = 0.0, problems: int = 12) -> list[Pair]:
    """Three candidates a problem. `noise`: standard deviation of the logarithm of every time."""
    chance = random.Random(7)
    found = []
    for number in range(problems):
        for candidate in range(3):
            kinds = [
                KINDS[(number + step * (candidate + 1)) % len(KINDS)] for step in range(1 + (number + candidate) % 5)
            ]
            sizes = [10 ** chance.uniform(-1.5, 0.7) for _ in kinds]
            rows = [launch(kind, size) for kind, size in zip(kinds, sizes, strict=True)]
            names = [LIBRARY[(number + step * (candidate + 1)) % len(LIBRARY)] for step in range(len(sizes))]
            eager = [library(name, size) for name, size in zip(names, sizes, strict=True)] + [library("mul", 1e-5)]
            found.append(counted(f"p{number}", candidate, rows, eager))
    times = [
        timed(
            row,
            *(
                total_us(side, H200, constants) * math.exp(chance.gauss(0, noise))
                for side in (row.candidate, row.eager)
            ),
        )
        for row in found
    ]
    return paired(found, times)
