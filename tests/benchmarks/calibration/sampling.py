"""Interprets a spread of a launch's programs and scales what they moved: sizes of a GPU in seconds on a processor.

For counting only; a result computed this way is none. Bytes, sectors and FLOPs grow with the programs. Distinct bytes
do so too, but not beyond the tensors: what programs share (a bias, the operands of a product) counts once.
"""

from __future__ import annotations

import math
from typing import Any

import triton.runtime.interpreter as triton_interpreter
from triton.runtime.interpreter import GridExecutor

from judge.bench.interpreting.builder import RepairedBuilder
from judge.bench.interpreting.counters import LaunchCounter
from judge.bench.interpreting.traffic import SECTOR_BYTES, LaunchTraffic


class SampledBuilder(RepairedBuilder):
    """Tells the programs that run which of the real ones they are."""

    programs: int = 0  # to run of each launch
    real: tuple[int, int, int] = (1, 1, 1)
    chosen: tuple[int, ...] = ()

    def sampled(self, grid: Any) -> tuple[int]:
        """Remember the real grid; the one to run instead."""
        full = (*(int(size) for size in grid), 1, 1)[:3]
        self.real = full[0], full[1], full[2]
        self.chosen = spread(math.prod(self.real), self.programs)
        return (len(self.chosen),)

    def set_grid_dim(self, nx: int, ny: int, nz: int) -> None:
        super().set_grid_dim(*self.real)

    def set_grid_idx(self, x: int, y: int, z: int) -> None:
        number, (_, ny, nz) = self.chosen[x], self.real
        super().set_grid_idx(number // (ny * nz), number // nz % ny, number % nz)


def spread(programs: int, limit: int) -> tuple[int, ...]:
    """Numbers of the programs to run: all of few, else `limit` of them evenly apart."""
    run = min(programs, limit)
    return tuple(number * programs // run for number in range(run))


def install(programs: int) -> None:
    """Run so many of each launch from now on, in a process whose interpreter is installed already."""
    builder = triton_interpreter.interpreter_builder
    builder.__class__ = SampledBuilder
    builder.programs = programs
    launch = GridExecutor.__call__

    def sampled_launch(self: Any, *args: Any, **kwargs: Any) -> None:
        asked = self.grid
        self.grid = lambda meta: builder.sampled(asked(meta) if callable(asked) else asked)
        launch(self, *args, **kwargs)

    GridExecutor.__call__ = sampled_launch
    LaunchCounter.result = lambda self: scaled(self, math.prod(builder.real))  # type: ignore[method-assign]


def scaled(counter: LaunchCounter, programs: int) -> LaunchTraffic:
    """The counts of a launch of so many programs, of which the counter saw some."""
    factor = programs / max(1, counter.programs)
    unique = 0.0
    for seen in counter._seen.values():
        for _, marks in seen._maps.values():
            unique += min(float(marks.size - 2), factor * int(marks.sum()))
        unique += factor * len(seen._strays)
    return LaunchTraffic(
        name=counter.name,
        origin="triton",
        programs=programs,
        logical_bytes=round(factor * counter.logical_bytes),
        sector_bytes=round(factor * counter.sectors) * SECTOR_BYTES,
        unique_bytes=round(unique) * SECTOR_BYTES,
        elementwise_flops=round(factor * counter.elementwise_flops),
        dot_flops={kind: round(factor * flops) for kind, flops in counter.dot_flops.items()},
        accesses=round(factor * counter.accesses),
    )
