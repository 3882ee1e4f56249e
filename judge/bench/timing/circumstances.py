"""What a measurement notes beside its samples. Standard library only."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class Circumstances:
    """What went on while the samples were taken."""

    clocks_mhz: list[int] = field(default_factory=list)  # one per block
    throttled: int = 0  # union of the throttle reasons seen
    dropped: int = 0  # pairs left out for their clock
    waited_s: float = 0.0  # until the GPU was quiet
    stopped: str = ""  # why no more samples were taken
    gaps: bool = False  # between launches counted
    cores: str = ""  # processors that the sides were on, or why they could not be put there
