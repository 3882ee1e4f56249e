"""What the trusted clock reads of a subject, and on which terms a claim is believed: on the CPU and on GPUs."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass, replace

import torch

from judge.bench.device.bandwidth import bandwidth_bytes_per_us, graph_copy_us
from judge.bench.device.clocks import empty_us

PASSES = 3  # of an output over the memory's bus that a burst pays and a single call does not: written back, copied


@dataclass(frozen=True)
class Terms:
    """How bursts are made and believed on a kind of device. Times in microseconds, `memory` in bytes of content."""

    longest: int  # calls in a burst
    aim_us: float  # time that a long burst should take: far above what a stamp costs
    memory: int
    least: int  # attempts before a claim is believed: a lucky stamp must not decide
    most: int  # attempts before it is not
    share: float  # a claim may be this part of the trusted time: a burst flushes no L2
    slack_us: float
    gap_us: float  # what a call may cost beside itself, whatever the baseline's bursts say
    copied: float  # bytes a microsecond: nor do copies of outputs cost more than this allows
    moved: float = math.inf  # bytes a microsecond that the device's memory is seen to move
    nothing_us: float = 0.0  # what a subject's clock reads around nothing
    stored_us: float = 0.0  # what storing an output takes at least, however small: a kernel of its own, after the call
    graph_stored_us: float = 0.0  # the same in a CUDA graph, where the copy is another engine's
    long_us: float = (
        math.inf
    )  # calls from here on are believed after LEAST_LONG attempts: stamps are nothing beside them

    def least_for(self, claimed_us: float) -> int:
        """Attempts before this claim is believed."""
        return min(self.least, LEAST_LONG) if claimed_us >= self.long_us else self.least

    def believes(self, claimed_us: float, call_us: float) -> bool:
        """Whether the claim is no faster than the trusted clock allows."""
        return claimed_us - self.nothing_us + self.slack_us >= self.share * call_us


LEAST_LONG = 2
MEMORY_SHARE = 0.04  # of a GPU's memory, for the content of a burst; COPIES of it leave room for another evaluation's
GPU = Terms(96, 3000.0, 4 << 30, 3, 48, 0.85, 1.0, 20.0, 1e5, stored_us=1.2, long_us=1000.0)
CPU = Terms(6, 2000.0, 2 << 30, 8, 80, 0.7, 20.0, 60.0, 1e3)  # a shared processor is lost in the middle of long bursts
CROWD_US, CROWD_SHARE = 3.0, 0.5  # read on a crowded H200: 1.5 to 1.8 us beyond claims of 4 and 7 us
DISTURBED, DISTURBED_US = 1.5, 5.0  # a baseline this much slower in the pairs than in its bursts was held up there


@dataclass(frozen=True)
class Trusted:
    """Upper bound of one call's time by the referee's clock, in microseconds, and how it was read."""

    call_us: float
    method: str  # "burst" or "graph_burst"
    calls: int  # in the long burst
    beside_us: float = 0.0  # what a burst costs per call beside the call: taken off already
    attempts: int = 1
    baseline_us: float = 0.0  # a call of the eager baseline, what it costs beside included
    supported: bool = True  # the claim is believed

    def narrowly_missed(self, claimed_us: float) -> bool:
        """Whether an unsupported claim is off by no more than others on the device may put between calls."""
        return self.call_us <= claimed_us + max(CROWD_US, CROWD_SHARE * claimed_us)

    def disturbed(self, eager_us: float) -> bool:
        """Whether the baseline took longer beside the candidate than it does when it has the GPU for itself."""
        return eager_us > DISTURBED * self.baseline_us + DISTURBED_US


@functools.cache
def terms_of(device: str) -> Terms:
    """The terms for "cpu" or a CUDA device: a burst's content takes at most MEMORY_SHARE of its memory.

    Measures a CUDA device once in this process, which holds it alone meanwhile.
    """
    if device == "cpu":
        return CPU
    memory = torch.cuda.get_device_properties(device).total_memory
    return replace(
        GPU,
        memory=int(MEMORY_SHARE * memory),
        moved=bandwidth_bytes_per_us(device),
        nothing_us=empty_us(device),
        graph_stored_us=graph_copy_us(device),
    )
