"""Runs Triton kernels on the CPU for real, in a process started with TRITON_INTERPRET=1.

`install` repairs Triton's interpreter (see interpreter_builder), lets CUDA-shaped code run on CPU tensors and counts
what every launch moves and computes. It uses private interfaces of Triton: only versions it was tested with count as
supported.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

import numpy as np
import triton
import triton.language as tl
from triton.runtime import driver
from triton.runtime import interpreter as triton_interpreter
from triton.runtime.errors import InterpreterError
from triton.runtime.interpreter import GridExecutor, InterpretedFunction

from judge.bench.interpreting import builder as interpreter_reductions
from judge.bench.interpreting import cuda_stand_in, libdevice_shims
from judge.bench.interpreting.bounds import BoundsTable
from judge.bench.interpreting.builder import RepairedBuilder, Unsupported
from judge.bench.interpreting.counters import LaunchCounter
from judge.bench.interpreting.kernel_code import MOST_CODES, Codes, launch_code, remember_texts
from judge.bench.interpreting.op_traffic import counting_ops
from judge.bench.interpreting.python_inside import InsideWatch
from judge.bench.interpreting.stand_in_driver import StandInDriver, TunedLists
from judge.bench.interpreting.targets import Target
from judge.bench.interpreting.targets import target as target_named
from judge.bench.interpreting.traffic import Ledger, TrafficReport

TESTED_VERSIONS = ("3.6.0", "3.7.1", "3.9.0")


def supported(version: str = triton.__version__) -> tuple[bool, str]:
    """(True, "") for a Triton version this adapter was tested with, else (False, what to do)."""
    plain = version.partition("+")[0]
    if plain in TESTED_VERSIONS:
        return True, ""
    return False, f"Triton {version} is untested with the interpreter adapter; install {' or '.join(TESTED_VERSIONS)}"


class Adapter:
    """The installed interpreter. `counts` False switches traffic counting off; bounds are always checked."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.counts = True
        self.ledger = Ledger()
        self.codes: Codes = {}  # of the launches since they were taken last
        self.lists = TunedLists()

    def reset(self) -> None:
        """Forget every launch counted so far."""
        self.ledger.clear()

    def take_codes(self) -> Codes:
        """What was launched since the last time, counted or not."""
        taken, self.codes = self.codes, {}
        return taken

    def report(self) -> TrafficReport:
        """Every launch since `reset`, in order: Triton's always, torch's operators made inside `counting`."""
        return self.ledger.report()

    @contextmanager
    def counting(self) -> Iterator[Ledger]:
        """Within it torch operators are counted beside the kernels, so a hybrid candidate's total is honest."""
        self.reset()
        with counting_ops(self.ledger) as ledger:
            yield ledger


def install(target: str | Target) -> Adapter:
    """Adapt this process's interpreter for `target`. Call before any candidate is imported, once a process.

    Raises ValueError for an unknown target and RuntimeError when Triton is not interpreting or is untested.
    """
    adapter = Adapter(target_named(target) if isinstance(target, str) else target)
    if not triton.knobs.runtime.interpret:
        raise RuntimeError("start the process with TRITON_INTERPRET=1 before triton is imported")
    fits, reason = supported()
    if not fits:
        raise RuntimeError(reason)
    cuda_stand_in.install(adapter.target)
    _install_builder()
    _install_index()
    interpreter_reductions.install()
    remember_texts(triton_interpreter.FunctionRewriter)
    libdevice_shims.install()
    _install_launches(adapter)
    _install_warmup()
    driver.set_active(StandInDriver(adapter.target))
    adapter.lists.install()
    warnings.filterwarnings("ignore", "All-NaN", RuntimeWarning)  # a GPU says nothing either
    return adapter


def _install_builder() -> None:
    builder = triton_interpreter.interpreter_builder
    builder.__class__ = RepairedBuilder
    builder.options = RepairedBuilder.repaired_options
    original = triton_interpreter._implicit_cvt

    def convert(arg: Any) -> Any:
        """A Python bool is an int1; before 3.9 Triton made it a 32-bit number of that type and refused it."""
        if isinstance(arg, bool):
            return tl.tensor(triton_interpreter.TensorHandle(np.array([arg], dtype=np.bool_), tl.int1), tl.int1)
        return original(arg)

    triton_interpreter._implicit_cvt = convert


def _install_index() -> None:
    """Loop bounds are one-element arrays, which numpy 2.4 no longer turns into an int for Triton 3.6."""
    original = triton_interpreter._patch_lang_tensor

    def patch_lang_tensor(tensor: Any, scope: Any) -> None:
        original(tensor, scope)
        scope.set_attr(tensor, "__index__", lambda self: int(self.handle.data.item()))

    triton_interpreter._patch_lang_tensor = patch_lang_tensor


def _install_launches(adapter: Adapter) -> None:
    original = GridExecutor.__call__
    builder = triton_interpreter.interpreter_builder

    def launch(self: Any, *args: Any, **kwargs: Any) -> None:
        name = self.fn.__name__
        if len(adapter.codes) <= MOST_CODES:
            adapter.codes[launch_code(self.fn, args, kwargs)] = name
        bounds = BoundsTable(_named(self.arg_names, args, kwargs))
        bounds.kernel = name
        counter = LaunchCounter(name, bounds, active=adapter.counts)
        before, builder.counter = builder.counter, counter
        try:
            with np.errstate(all="ignore"), _unobserved() if adapter.counts else nullcontext():
                original(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - translated and raised again
            raise _cause(error, builder) from None
        finally:
            builder.counter = before
        if adapter.counts:
            adapter.ledger.add(counter.result())

    GridExecutor.__call__ = launch


@contextmanager
def _unobserved() -> Iterator[None]:
    """Nobody's function is called while a launch is counted: it would see the counters, and could change them.

    Raises Unsupported where that cannot be had.
    """
    profiler, tracer = sys.getprofile(), sys.gettrace()
    monitoring = getattr(sys, "monitoring", None)  # from Python 3.12 on
    if monitoring is not None and any(map(monitoring.get_tool, range(6))):
        raise Unsupported("a launch is not counted while a tool of sys.monitoring looks on")
    if not isinstance(profiler, InsideWatch):
        sys.setprofile(None)
    sys.settrace(None)
    try:
        yield
    finally:
        sys.setprofile(profiler)
        sys.settrace(tracer)


class _NotCompiled:
    """What `kernel.warmup` gives: any question about registers or shared memory is beyond an interpreter."""

    def __getattr__(self, name: str) -> Any:
        raise Unsupported(f"the interpreter compiles nothing, so a kernel has no {name}")


def _install_warmup() -> None:
    original = InterpretedFunction.run

    def run(self: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
        return _NotCompiled() if warmup else original(self, *args, grid=grid, warmup=False, **kwargs)

    InterpretedFunction.run = run


def _named(names: list[str], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    yield from zip(names, args, strict=False)
    yield from kwargs.items()


def _cause(error: BaseException, builder: Any) -> BaseException:
    """What really happened inside the kernel; Triton wraps it once for each function on the way."""
    while isinstance(error, InterpreterError) and error.__cause__ is not None:
        error = error.__cause__
    if isinstance(error, AttributeError) and error.obj is builder:
        return Unsupported(f"Triton {triton.__version__} cannot interpret {str(error.name).removeprefix('create_')}")
    return error
