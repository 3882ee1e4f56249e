"""What one forward moves and computes, launch by launch: the input of the time model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

SECTOR_BYTES = 32
SUMMED = ("programs", "logical_bytes", "sector_bytes", "unique_bytes", "elementwise_flops")


@dataclass(frozen=True)
class LaunchTraffic:
    """One kernel launch (a Triton kernel, or one torch operator).

    `logical_bytes`: active lanes times element size. `sector_bytes`: 32-byte sectors touched by each load or store,
    summed, so a strided access costs what it costs in hardware. `unique_bytes`: distinct sectors of the launch, read
    and written counted apart. `dot_flops` by kind (fp32, tf32, fp16, bf16, fp8, int8, fp64); a multiply-add is two.
    `accesses`: loads and stores of whole blocks, all programs together: what a program does one after the other.
    `programs` is None for a torch operator: its kernel is taken to fill the device.
    """

    name: str
    origin: str  # "triton" or "torch"
    programs: int | None = None
    logical_bytes: int = 0
    sector_bytes: int = 0
    unique_bytes: int = 0
    elementwise_flops: int = 0
    dot_flops: Mapping[str, int] = field(default_factory=dict)
    accesses: int = 0

    def __post_init__(self) -> None:
        if self.origin not in {"triton", "torch"}:
            raise ValueError(f"unknown origin {self.origin!r}")
        counts = (*(getattr(self, name) for name in SUMMED if name != "programs"), self.accesses)
        if min(counts) < 0 or (self.programs is not None and self.programs < 0):
            raise ValueError(f"{self.name}: counts cannot be negative")


@dataclass(frozen=True)
class TrafficReport:
    """Every launch of one forward, in order."""

    kernels: tuple[LaunchTraffic, ...] = ()

    @property
    def launches(self) -> int:
        return len(self.kernels)

    def total(self, name: str) -> int:
        """Sum over all launches of one of SUMMED; where it is not known, as the programs of an operator, 0."""
        return sum(getattr(row, name) or 0 for row in self.kernels)

    @property
    def elementwise_flops(self) -> int:
        return self.total("elementwise_flops")

    @property
    def dot_flops(self) -> dict[str, int]:
        total: Counter[str] = Counter()
        for row in self.kernels:
            total.update(row.dot_flops)
        return dict(total)

    @property
    def flops(self) -> int:
        return self.elementwise_flops + sum(self.dot_flops.values())

    def to_json(self) -> dict[str, object]:
        """Totals, and how many launches were the candidate's own kernels."""
        return {
            "launches": self.launches,
            "triton_launches": sum(row.origin == "triton" for row in self.kernels),
            **{name: self.total(name) for name in SUMMED},
            "dot_flops": self.dot_flops,
        }


def _nobody(row: LaunchTraffic) -> None:
    """Nobody is told."""


class Ledger:
    """Where launches are written down, whoever makes them. `paused` while operators are counted as one call.

    `tell` hears of each at once, before whoever made it goes on. `operators`: how many of torch's came by, counted or
    not.
    """

    def __init__(self) -> None:
        self.kernels: list[LaunchTraffic] = []
        self.operators = 0
        self.paused = False
        self.tell: Callable[[LaunchTraffic], None] = _nobody

    def add(self, row: LaunchTraffic) -> None:
        self.kernels.append(row)
        self.tell(row)

    def clear(self) -> None:
        self.kernels.clear()
        self.operators = 0

    def report(self) -> TrafficReport:
        return TrafficReport(tuple(self.kernels))

    @contextmanager
    def pause(self) -> Iterator[None]:
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before
