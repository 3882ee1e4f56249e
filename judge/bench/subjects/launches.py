"""Launches of Triton kernels in a child of the audit: noted, or without effect, or failing.

What is noted is the child's word. The checks that rely on it are built so that lying costs the candidate its answer:
launches that have no effect must break its output.
"""

from __future__ import annotations

import dataclasses
import importlib
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from judge.bench.exchange.claims import MOST_LAUNCHES
from judge.bench.exchange.fields import NAME
from judge.bench.exchange.wire import Message
from judge.bench.foreign.faults import kind_of

MODES = ("census", "noop", "raise")
_REFUSAL = "Triton Error [CUDA]: unspecified launch failure"


@dataclass
class Row:
    """One kernel: how often it was launched to the end, how often that raised, and the last error's kind."""

    completed: int = 0
    raised: int = 0
    kind: str = ""
    inside: list[str] = field(default_factory=list)  # what it called that is no kernel, where kernels are interpreted


class Launches:
    """`mode`: census (noted only), noop (no effect) or raise (each fails). Acts while `active`."""

    def __init__(self, mode: str, folder: Path) -> None:
        self.mode = mode
        self.folder = str(folder)
        self.active = False
        self.rows: dict[tuple[str, str], Row] = {}
        self.origins: Any = None  # of the values of a call, where kernels are interpreted
        self.beside: list[str] = []  # what was called during launches, and by no kernel
        self._depth = 0

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Notes start anew in the block, and launches behave as the mode says."""
        self.rows.clear()
        self.beside.clear()
        self.active = True
        try:
            with self.origins.watching() if self.origins is not None else nullcontext():
                yield
        finally:
            self.active = False

    def report(self) -> list[Message]:
        rows = list(self.rows.items())[:MOST_LAUNCHES]
        return [{"name": name[:NAME], "origin": origin, **dataclasses.asdict(row)} for (name, origin), row in rows]

    def origin(self, fn: Any) -> str:
        """Whose kernel: "own" (the candidate's text or files), "compiler" (made by torch.compile) or "library"."""
        path = str(getattr(getattr(fn, "__code__", None), "co_filename", ""))
        if path.startswith(f"{self.folder}/inductor"):
            return "compiler"
        return "library" if "site-packages" in path or "dist-packages" in path else "own"

    @contextmanager
    def looking_inside(self, fn: Any) -> Iterator[None]:
        """Note what an interpreted kernel calls, and what else is called during its launch."""
        if self.mode != "census" or not self.active:
            yield
            return
        row = self.rows.setdefault((str(getattr(fn, "__name__", fn)), self.origin(fn)), Row())
        with importlib.import_module("judge.bench.interpreting.python_inside").watching(row.inside, self.beside):
            yield

    def launch(self, fn: Any, launch: Callable[[], Any], instead: Callable[[], Any]) -> Any:
        """One launch of `fn`: `launch` does it, `instead` only gives what it would return."""
        if not self.active or self._depth:
            return launch()
        origin = self.origin(fn)
        row = self.rows.setdefault((str(getattr(fn, "__name__", fn)), origin), Row())
        tampers = self.mode != "census" and origin == "own"  # what others made is not the question
        self._depth += 1
        try:
            if tampers and self.mode == "raise":
                raise RuntimeError(_REFUSAL)
            result = instead() if tampers else launch()
        except BaseException as error:
            row.raised += 1
            row.kind = kind_of(error)
            raise
        finally:
            self._depth -= 1
        row.completed += 1
        return result


def compiled_graphs() -> int:
    """Graphs that torch.compile has compiled in this process."""
    counters = getattr(sys.modules.get("torch._dynamo.utils"), "counters", {})
    return int(counters["frames"]["ok"]) if "frames" in counters else 0


def install(launches: Launches) -> None:
    """Route this process's launches through `launches`, before the candidate is imported. Nothing without Triton."""
    try:
        triton = importlib.import_module("triton")
    except ImportError:
        return
    if triton.knobs.runtime.interpret:
        _route_interpreted(launches)
    else:
        _route_compiled(launches)
        _route_finished_kernels(launches)
    if launches.mode != "census":
        _choose_without_timing()


def _route_interpreted(launches: Launches) -> None:
    function = importlib.import_module("triton.runtime.interpreter").InterpretedFunction
    original = function.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        if warmup:
            return original(self, *args, grid=grid, warmup=True, **kwargs)

        def interpreted() -> Any:
            if launches.origins is None or not launches.active:
                return inside(grid)
            given = [*args, *kwargs.values()]
            return launches.origins.launch(self.__name__, given, lambda foreign: inside(_followed(grid, foreign)))

        def inside(grid: Any) -> Any:
            with launches.looking_inside(self.fn):
                return original(self, *args, grid=grid, warmup=False, **kwargs)

        return launches.launch(self.fn, interpreted, lambda: None)

    function.run = run
    if launches.mode == "census":
        launches.origins = importlib.import_module("judge.bench.interpreting.origins").Origins()


def _followed(grid: Any, call: Callable[..., Any]) -> Any:
    """The grid; where it is a function, `call` calls it, and it is not watched as what runs beside a kernel is."""

    def asked(*given: Any) -> Any:
        watch = sys.getprofile()
        sys.setprofile(None)
        try:
            return call(grid, *given)
        finally:
            sys.setprofile(watch)

    return asked if callable(grid) else grid


def _route_compiled(launches: Launches) -> None:
    function = importlib.import_module("triton.runtime.jit").JITFunction
    original = function.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        def compiled() -> Any:
            """All that a launch does before it has an effect, errors included."""
            kernel = original(self, *args, grid=grid, warmup=True, **kwargs)
            if hasattr(kernel, "_init_handles"):
                kernel._init_handles()  # loads it: what does not fit the device raises here
            return kernel

        if warmup:
            return original(self, *args, grid=grid, warmup=True, **kwargs)
        return launches.launch(self.fn, lambda: original(self, *args, grid=grid, warmup=False, **kwargs), compiled)

    function.run = run


def _route_finished_kernels(launches: Launches) -> None:
    """Kernels launched by their handle, beside JITFunction.run, still come through the driver's launcher."""
    try:
        launcher = importlib.import_module("triton.backends.nvidia.driver").CudaLauncher
    except (ImportError, AttributeError):
        return
    construct, original = launcher.__init__, launcher.__call__

    def init(self: Any, src: Any, metadata: Any) -> None:
        construct(self, src, metadata)
        self.audited_fn = getattr(getattr(src, "fn", None), "fn", src)

    def call(self: Any, *args: Any, **kwargs: Any) -> Any:
        return launches.launch(self.audited_fn, lambda: original(self, *args, **kwargs), lambda: None)

    launcher.__init__, launcher.__call__ = init, call


def _choose_without_timing() -> None:
    """Launches that do nothing cannot be timed: the autotuner takes the first configuration."""
    autotuner = importlib.import_module("triton.runtime.autotuner").Autotuner

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        del self, args, config, meta
        return [1.0, 1.0, 1.0]

    autotuner._bench = bench
