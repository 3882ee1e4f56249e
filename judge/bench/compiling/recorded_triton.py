"""Triton made to compile without running: every new kernel goes to the recorder's pool, every launch to its list."""

from __future__ import annotations

import math
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
import triton
import triton.compiler
import triton.testing
from triton.backends.nvidia.compiler import CUDABackend
from triton.compiler.errors import CompileTimeAssertionFailure
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources, PTXASError
from triton.runtime.jit import JITFunction

from judge.bench.compiling.messages import describe
from judge.bench.compiling.recorder import Recorder
from judge.bench.compiling.recording_driver import RecordingDriver, Resources
from judge.bench.compiling.shared_memory import refuse_early
from judge.bench.interpreting import cuda_stand_in
from judge.bench.interpreting.kernel_code import MOST_CODES, launch_code
from judge.bench.interpreting.targets import target
from judge.bench.interpreting.tuning_record import Group, tuning_key
from judge.bench.processes.pool import Result, Ticket
from judge.bench.processes.warm_up import warm

CONFIG_LIMIT = 64
_DROPPED = (OutOfResources, CompileTimeAssertionFailure, PTXASError)  # what Triton's autotuner forgives


def install(arch: int) -> Recorder:
    """Make this process compile for sm_<arch>, once, before any candidate is imported. Warms the compiler for forks.

    Raises ValueError for an unknown target and RuntimeError in a process that interprets kernels.
    """
    recorder = Recorder(target(f"sm_{arch}"))
    if triton.knobs.runtime.interpret:
        raise RuntimeError("TRITON_INTERPRET is set: kernels would be interpreted, not compiled")
    cuda_stand_in.install(recorder.target, zero_fill=True)
    driver.set_active(RecordingDriver(recorder.target, _launched_directly(recorder)))
    refuse_early(recorder.target)
    warm()
    with recorder.uncomputed:
        torch.randn(1 << 20)  # torch loads its shape rules at the first question, which takes seconds
    _record_compiles(recorder)
    _record_runs(recorder)
    _record_tuning(recorder)
    recorder.reset()  # of the launches that warmed it up
    return recorder


class _Read(BaseException):
    """The front end is done with a kernel."""


class PendingKernel:
    """Stands for a compiled kernel while its compiler works. Launching it only notes the launch.

    Whoever asks for anything else (registers, machine code) waits for the real one.
    """

    function = 0
    packed_metadata = None

    def __init__(self, recorder: Recorder, compile_here: Callable[[], Any], source: Any, options: Any) -> None:
        self._recorder = recorder
        self._compile = compile_here
        self._path = str(source.fn.fn.__code__.co_filename)
        self._row = {"name": source.name, "num_warps": options["num_warps"], "num_stages": options["num_stages"]}
        self._signature = _plain_signature(list(source.signature.values()))
        self._ticket = self._submit()
        self._real: Any = None

    def _submit(self) -> Ticket:
        """Lists begin as a whole, small ones first: what fits is known before the large ones have used up the time."""
        tuning, pool = self._recorder.tuning, self._recorder.pool
        work = partial(_compiled, self._compile, self._path, self._signature)
        return pool.submit(work) if tuning is None else pool.offer(work, tuning.effort, partial(_front_end, work))

    def launch_metadata(self, *args: Any) -> None:
        return None

    def run(self, x: int, y: int, z: int, *rest: Any) -> None:
        """In place of the launcher."""
        if self._ticket.dropped:  # an earlier recording of this process gave up on it
            self._ticket = self._submit()
        empty = {"regs": None, "spills": None, "shared_bytes": None, "error": None}
        self._recorder.on_launch({**self._row, "grid": [int(x), int(y), int(z)], **empty}, self._ticket)

    def __getitem__(self, grid: Any) -> Any:
        return self._resolved()[grid]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "result":  # Triton asks its own unfinished kernels for a result
            raise AttributeError(name)
        return getattr(self._resolved(), name)

    def _resolved(self) -> Any:
        """The real kernel, read from the cache that its compiler filled. Raises CompileFailed."""
        if self._real is None:
            self._recorder.await_one(self._ticket, str(self._row["name"]))
            self._real = self._compile()
            self._real._init_handles()
        return self._real


def _compiled(compile_here: Callable[[], Any], path: str, signature: list[Any]) -> Result:
    """In a forked process: compile into the cache, and say what the machine code needs."""
    with _stderr_kept() as diagnostics:
        try:
            kernel = compile_here()
            kernel._init_handles()  # the recording driver reads its needs and checks the target's limits
        except Exception as error:  # noqa: BLE001 - reported to whoever waits
            reason = "compile.resources" if isinstance(error, OutOfResources) else "compile.error"
            message = describe(error, path, diagnostics())
            return {"reason": reason, "error": message, "drops": isinstance(error, _DROPPED)}
    needs: Resources = driver.active.utils.loaded[kernel.function]
    shared = kernel.metadata.shared + needs.static_shared_bytes
    descriptors = bool(getattr(kernel.metadata, "tensordesc_meta", None))
    return {
        "row": {"name": kernel.name, "regs": needs.regs, "spills": needs.spills, "shared_bytes": shared, "error": None},
        "launcher": {"signature": signature, "descriptors": descriptors},
    }


def _front_end(work: Callable[[], Result]) -> Result:
    """In a forked process: `work` up to Triton's own IR, where the text has been read. {} when that is well."""

    def no_further(*args: Any, **kwargs: Any) -> Any:
        raise _Read

    CUDABackend.make_ttir = no_further
    try:
        return work()
    except _Read:
        return {}


def _plain_signature(types: Any) -> list[Any]:
    return [_plain_signature(item) if isinstance(item, tuple | list) else str(item) for item in types]


def _launched_directly(recorder: Recorder) -> Callable[[Any, Resources, tuple[int, int, int]], None]:
    """For kernels that the candidate compiled or awaited itself: they are machine code already."""

    def on_launch(metadata: Any, needs: Resources, grid: tuple[int, int, int]) -> None:
        shared = metadata.shared + needs.static_shared_bytes
        found = {"regs": needs.regs, "spills": needs.spills, "shared_bytes": shared, "error": None}
        row = {"name": metadata.name, "grid": list(grid), "num_warps": metadata.num_warps}
        ready = Ticket(lambda: {}, urgent=True, result={"row": found})
        recorder.on_launch({**row, "num_stages": metadata.num_stages, **found}, ready)

    return on_launch


def _record_compiles(recorder: Recorder) -> None:
    """What Triton's launches call to compile. `triton.compile` itself stays: it gives what it says."""
    original = triton.compiler.compile

    def compile_later(src: Any, target: Any = None, options: Any = None, **kwargs: Any) -> Any:
        options = dict(options or {})
        return PendingKernel(recorder, lambda: original(src, target=target, options=options, **kwargs), src, options)

    triton.compiler.compile = compile_later


def _record_runs(recorder: Recorder) -> None:
    original = JITFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder.resume()
        try:
            launched = original(self, *args, **kwargs)
        except Exception as error:
            if recorder.tuning is not None:
                raise  # reported with the configuration
            raise recorder.fail(error, self.fn.__code__.co_filename) from error
        if not kwargs.get("warmup") and len(recorder.codes) <= MOST_CODES:
            recorder.codes[launch_code(self, args, kwargs)] = self.fn.__name__
        return launched

    JITFunction.run = run


def _record_tuning(recorder: Recorder) -> None:
    """Every configuration is compiled, none timed; too many or too slow lists are cut, and noted."""
    original_bench, original_prune = Autotuner._bench, Autotuner.prune_configs
    triton.testing.do_bench = _run_once
    triton.testing.do_bench_cudagraph = _run_once

    def prune_configs(self: Any, kwargs: Any) -> Any:
        recorder.resume()
        configs = list(original_prune(self, kwargs))
        offered = configs[:CONFIG_LIMIT]
        names = [str(config) for config in offered]
        key = tuning_key(self, kwargs)
        self.judge_group = Group(
            self.base_fn.__name__, key, len(configs), names, recorder.clock(), guessed=recorder.guesses
        )
        recorder.groups.append(self.judge_group)
        return offered

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        self.__dict__["do_bench"] = _run_once
        recorder.tuning = self.judge_group
        self.judge_group.current, self.judge_group.effort = str(config), _effort(config)
        try:
            return list(original_bench(self, *args, config=config, **meta))
        except Exception as error:
            raise recorder.fail(error, self.base_fn.__code__.co_filename) from error
        finally:
            recorder.tuning = None

    Autotuner.prune_configs = prune_configs
    Autotuner._bench = bench


def _effort(config: Any) -> float:
    """How long a configuration takes to compile beside others of its list: elements of its tile for each thread."""
    sizes = [value for value in config.kwargs.values() if type(value) is int and value > 1]
    return math.prod(sizes) / max(1, config.num_warps or 1)


def _run_once(fn: Callable[[], object], *args: Any, quantiles: Sequence[float] | None = None, **kwargs: Any) -> Any:
    """In place of a benchmark: compile by launching once, every configuration takes one millisecond."""
    fn()
    return [1.0] * len(quantiles) if quantiles else 1.0


@contextmanager
def _stderr_kept() -> Iterator[Callable[[], str]]:
    """Keeps what the compiler's native code prints to standard error; yields a reader of it."""
    with tempfile.TemporaryFile() as kept:
        saved = os.dup(2)
        os.dup2(kept.fileno(), 2)

        def read() -> str:
            return os.pread(kept.fileno(), 64 * 1024, 0).decode(errors="replace")

        try:
            yield read
        finally:
            os.dup2(saved, 2)
            os.close(saved)
