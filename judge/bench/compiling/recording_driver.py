"""A Triton driver that takes finished kernels and executes nothing: it reads what machine code needs of the target."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import triton

from judge.bench.interpreting.stand_in_driver import StandInDriver, StandInUtils
from judge.bench.interpreting.targets import Target

_CUOBJDUMP = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "cuobjdump"
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)")


@dataclass(frozen=True)
class Resources:
    """Per thread registers and bytes of stack (spills live there), per block bytes of static shared memory."""

    regs: int
    stack_bytes: int
    static_shared_bytes: int

    @property
    def spills(self) -> int:
        """Spilled 32-bit registers, as Triton counts them."""
        return self.stack_bytes // 4


def read_resources(cubin: bytes) -> Resources:
    """What the machine code needs, read by the cuobjdump that comes with Triton (3 ms)."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(cubin)
        file.flush()
        command = [str(_CUOBJDUMP), "--dump-resource-usage", file.name]
        text = subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    found = _USAGE.search(text)
    if found is None:
        raise RuntimeError("cuobjdump says nothing about the kernel's resources")
    regs, stack, shared, local = map(int, found.groups())
    return Resources(regs, stack + local, shared)


# kernel metadata, resources, grid
OnLaunch = Callable[[Any, Resources, tuple[int, int, int]], None]


class RecordingUtils(StandInUtils):
    """Loads machine code by reading its needs. The function handle is its place in `loaded`."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.loaded: list[Resources] = []

    def load_binary(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[int, int, int, int, int]:
        """(module, function, registers, spills, most threads a block), as Triton's own."""
        found = read_resources(kernel)
        self.loaded.append(found)
        return 1, len(self.loaded) - 1, found.regs, found.spills, 1024

    def unload_module(self, module: int) -> None:
        pass


class RecordingDriver(StandInDriver):
    """Calls `on_launch` where a real driver would launch."""

    def __init__(self, target: Target, on_launch: OnLaunch) -> None:
        super().__init__(target)
        self.utils: RecordingUtils = RecordingUtils(target)
        self.on_launch = on_launch

    def launcher_cls(self, src: Any, metadata: Any) -> Callable[..., None]:
        """Triton makes one launcher for each compiled kernel and calls it once a launch."""

        def launch(x: int, y: int, z: int, stream: int, function: int, *rest: Any) -> None:
            self.on_launch(metadata, self.utils.loaded[function], (x, y, z))

        return launch
