"""The clocks that run inside a subject: what they say is a claim, which the referee's own clock checks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch

from judge.bench.device import nvml
from judge.bench.device.gpu_lock import GpuLock
from judge.bench.device.warm_up import warm_up

IDLE_SYNC_US = 30.0  # a device-wide wait takes less than this when nothing is left to do and the processor is free
LATE_US = 20.0  # work that others than the call's stream have left shows above this
CACHE_BYTES = 64 << 20  # when the device does not tell the size of its L2
CYCLES_PER_US = 2000  # upper bound of a GPU's clock, for the length of a hold
HOLD_MARGIN_US, LONGEST_HOLD_US = 20.0, 2000.0


class CudaClock:
    """CUDA events around the call; the stop waits for every stream of the device first, then for its own event.

    The GPU is held back by a spinning kernel until the call's launches are queued, as far as LONGEST_HOLD_US goes:
    gaps between launches belong to the processor of this machine and vary with its load. The time without them is
    what the GPU needs; `host_us` tells the rest.
    """

    method = "cuda_events"

    def __init__(self, device: str, *, flush: bool = True) -> None:
        """Without `flush` no buffer for flushing is kept."""
        self.device = device
        properties = torch.cuda.get_device_properties(device)
        size = (int(getattr(properties, "L2_cache_size", 0)) or CACHE_BYTES) if flush else 0
        self._clean = torch.zeros(2 * size // 4, dtype=torch.float32, device=device)
        self._sink = torch.zeros((), dtype=torch.float32, device=device)
        self._begin = torch.cuda.Event(enable_timing=True)
        self._end = torch.cuda.Event(enable_timing=True)
        self._began_ns = 0
        self.host_us = 0.0  # how long the processor needed to launch the last call's work
        self._hold_us = HOLD_MARGIN_US
        self._held = True

    def start(self, *, flush: bool, hold: bool = True) -> None:
        """Evict the L2 by reading a clean buffer twice its size (writing would leave dirty lines to pay for later).

        Without `hold` the GPU is left idle, and the time is that of this process until the device has done all: what
        a caller waits for where launching takes longer than the work.
        """
        if flush:
            torch.sum(self._clean, dim=0, out=self._sink)
        self._held = hold
        if hold:
            torch.cuda._sleep(int(self._hold_us * CYCLES_PER_US))
        else:
            torch.cuda.synchronize(self.device)
        self._begin.record()
        self._began_ns = time.perf_counter_ns()

    def stop(self) -> float:
        """Time from start to the end of the current stream's work, plus what other streams still had to do."""
        self._end.record()
        self.host_us = (time.perf_counter_ns() - self._began_ns) / 1e3
        if not self._held:
            torch.cuda.synchronize(self.device)
            return (time.perf_counter_ns() - self._began_ns) / 1e3
        self._adapt(late=self._begin.query())
        self._end.synchronize()
        late_us = left_over_us(self._sync_us)
        return float(self._begin.elapsed_time(self._end)) * 1e3 + late_us

    def _sync_us(self) -> float:
        """How long it takes until the whole device has nothing to do."""
        began = time.perf_counter_ns()
        torch.cuda.synchronize(self.device)
        return (time.perf_counter_ns() - began) / 1e3

    def _adapt(self, *, late: bool) -> None:
        """Hold the next call longer when this one's work began before all of it was queued; else let go slowly."""
        needed = 1.5 * self.host_us + HOLD_MARGIN_US
        self._hold_us = min(LONGEST_HOLD_US, max(needed, (2.0 if late else 0.7) * self._hold_us))


def left_over_us(wait_us: Callable[[], float], again: int = 3) -> float:
    """Work that was left on the device when the call's own stream had ended, in microseconds; `wait_us` waits for it.

    A wait for nothing takes 5 us, and 40 on a processor that others use: it is asked again where the first was long.
    """
    first_us = wait_us()
    if first_us <= IDLE_SYNC_US:
        return 0.0
    late_us = first_us - min(wait_us() for _ in range(again))
    return late_us if late_us > LATE_US else 0.0


class WallClock:
    """Monotonic clock, for the CPU."""

    method = "wall_clock"

    def __init__(self) -> None:
        self._began = 0
        self.host_us = 0.0

    def start(self, *, flush: bool, hold: bool = True) -> None:
        self._began = time.perf_counter_ns()

    def stop(self) -> float:
        return max(1, time.perf_counter_ns() - self._began) / 1e3


def make_clock(device: str) -> CudaClock | WallClock:
    """What times one call on the device, in microseconds."""
    return WallClock() if device == "cpu" else CudaClock(device)


def empty_us(device: str, calls: int = 9) -> float:
    """What the clock reads around nothing, the median of `calls`: its bias, stated beside short times."""
    clock = make_clock(device)
    readings = []
    for _ in range(calls):
        clock.start(flush=False)
        readings.append(clock.stop())
    return sorted(readings)[calls // 2]


QUIET_KERNEL_US = 8.0  # an idle GPU starts and ends a tiny kernel in 2 us; with somebody's context in the way, in 30
QUIET_WAIT_S, QUIET_PAUSE_S = 6.0, 0.1


def tiny_kernel_us(device: str, count: int = 20) -> float:
    """Time per kernel of a row of tiny ones: tells whether the GPU is ours alone, whatever its cause."""
    clock = CudaClock(device, flush=False)
    value = torch.zeros(1, device=device)
    for _ in range(2):
        clock.start(flush=False)
        for _ in range(count):
            value.fill_(1.0)
        elapsed_us = clock.stop()
    return elapsed_us / count


def is_quiet(device: str) -> bool:
    """Whether the GPU starts and ends tiny kernels as quickly as an idle one. The CPU is taken as it is."""
    return device == "cpu" or tiny_kernel_us(device) <= QUIET_KERNEL_US


def wait_until_quiet(
    device: str, tell: Callable[[str], float] = tiny_kernel_us, warm_up: Callable[[str], object] = warm_up
) -> float:
    """Wait while processes that have just ended still hold up the GPU. Seconds waited; QUIET_WAIT_S at most, and what
    it takes to raise an idle GPU's clock. Hold the GPU alone.

    After a profiled process, or many at once, every kernel of everybody takes some 30 us more for a second or two.
    """
    if device == "cpu":
        return 0.0
    started = time.monotonic()
    warm_up(device)
    while tell(device) > QUIET_KERNEL_US and time.monotonic() - started < QUIET_WAIT_S:
        time.sleep(0.05)
    return time.monotonic() - started


@contextmanager
def quiet_and_alone(
    lock: GpuLock,
    device: str,
    tell: Callable[[str], bool] = is_quiet,
    warm_up: Callable[[str], object] = warm_up,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    *,
    puts_off: bool = False,
) -> Iterator[float]:
    """Inside `lock.shared()`: have the GPU alone for the block, from a quiet moment on. Seconds that took are yielded.

    While it is not quiet others may use it, for QUIET_WAIT_S; then it is taken as it is. Waiting for others is no part
    of these seconds. Contexts in the making are waited for where it is not quiet beside them. `puts_off`: as in
    `alone`.
    """
    waited_s = 0.0
    while True:
        with lock.alone(puts_off=puts_off):
            began = clock()
            warm_up(device)
            quiet = tell(device)
            if not quiet and lock.contexts_are_made():
                with lock.without_contexts():
                    quiet = tell(device)
            waited_s += clock() - began
            if quiet or waited_s >= QUIET_WAIT_S:
                lock.use.quiet_s += waited_s
                yield waited_s
                return
        with lock.left():
            began = clock()
            sleep(QUIET_PAUSE_S)
            waited_s += clock() - began


class SmClock:
    """SM clock and throttle reasons of the GPU by NVML, read in the referee. Zeros where NVML does not answer."""

    def __init__(self, device: str, library: Any = nvml.pynvml) -> None:
        self._library = library
        self._board: Any = None  # handle of the whole GPU: an instance of it has no clock of its own
        self.unavailable = "no GPU" if device == "cpu" else nvml.start(library)
        if not self.unavailable:
            self._open(str(torch.cuda.get_device_properties(device).uuid))

    def _open(self, uuid: str) -> None:
        found = (part.board for part in nvml.parts(self._library) if part.uuid.endswith(f"-{uuid}"))
        self._board = next(found, None)
        self.unavailable = "" if self._board is not None else f"the driver lists no GPU {uuid}"

    def mhz(self) -> int:
        if self._board is None:
            return 0
        return nvml.query(self._library, "nvmlDeviceGetClockInfo", self._board, self._library.NVML_CLOCK_SM) or 0

    def throttle_reasons(self) -> int:
        """Bit mask of NVML's clock event reasons; idle and application settings left out."""
        reasons = None if self._board is None else nvml.throttle_reasons(self._library, self._board)
        return (reasons or 0) & ~0x3
