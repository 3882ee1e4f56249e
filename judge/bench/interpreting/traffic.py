"""What one forward moves and computes, launch by launch: the input of the time model."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

SECTOR_BYTES = 32


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
        counts = (self.logical_bytes, self.sector_bytes, self.unique_bytes, self.elementwise_flops, self.accesses)
        if min(counts) < 0:
            raise ValueError(f"{self.name}: counts cannot be negative")


@dataclass(frozen=True)
class TrafficReport:
    """Every launch of one forward, in order."""

    kernels: tuple[LaunchTraffic, ...] = ()

    @property
    def launches(self) -> int:
        return len(self.kernels)

    @property
    def programs(self) -> int:
        return sum(row.programs or 0 for row in self.kernels)

    @property
    def logical_bytes(self) -> int:
        return sum(row.logical_bytes for row in self.kernels)

    @property
    def sector_bytes(self) -> int:
        return sum(row.sector_bytes for row in self.kernels)

    @property
    def unique_bytes(self) -> int:
        return sum(row.unique_bytes for row in self.kernels)

    @property
    def elementwise_flops(self) -> int:
        return sum(row.elementwise_flops for row in self.kernels)

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
            "programs": self.programs,
            "logical_bytes": self.logical_bytes,
            "sector_bytes": self.sector_bytes,
            "unique_bytes": self.unique_bytes,
            "elementwise_flops": self.elementwise_flops,
            "dot_flops": self.dot_flops,
        }


class Ledger:
    """Where launches are written down, whoever makes them. `paused` while a Triton launch runs its own torch calls."""

    def __init__(self) -> None:
        self.kernels: list[LaunchTraffic] = []
        self.paused = False

    def add(self, row: LaunchTraffic) -> None:
        self.kernels.append(row)

    def clear(self) -> None:
        self.kernels.clear()

    def report(self) -> TrafficReport:
        return TrafficReport(tuple(self.kernels))

    @contextmanager
    def pause(self) -> Iterator[None]:
        before, self.paused = self.paused, True
        try:
            yield
        finally:
            self.paused = before
