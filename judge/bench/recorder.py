"""Compiles every kernel a candidate launches for a chosen GPU, down to machine code, without a GPU.

The candidate runs on CPU tensors; Triton specialises, autotunes and compiles as it would on the target; nothing is
executed, so tensors a kernel should have filled read as zero. For a process without TRITON_INTERPRET.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import triton
import triton.testing
from torch.overrides import TorchFunctionMode
from triton.backends.nvidia.compiler import CUDABackend
from triton.runtime import driver
from triton.runtime.autotuner import Autotuner
from triton.runtime.errors import OutOfResources
from triton.runtime.jit import JITFunction

from judge.bench import cuda_stand_in
from judge.bench.compile_messages import clean, describe
from judge.bench.recording_driver import RecordingDriver, Resources
from judge.bench.targets import Target, target
from judge.bench.warm_kernel import warm

CONFIG_LIMIT = 64
TUNING_S = 20.0
KERNEL_LIMIT = 1000
READ_LIMIT = 10_000
_GRID_LIMITS = (2**31 - 1, 65535, 65535)
_READS = {torch.Tensor.item, torch.Tensor.tolist, torch.Tensor.__bool__, torch.Tensor.__int__, torch.Tensor.__float__}


class CompileFailed(Exception):
    """A kernel does not compile for the target. `reason` is compile.error, compile.resources or compile.incomplete."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


class Recorder:
    """What was compiled: `kernels` in launch order, `tuned` the configurations tried, `notes` what was left out.

    A row has name, grid, num_warps, num_stages, regs, spills, shared_bytes and error (None when it compiled).
    """

    def __init__(self, target: Target, clock: Callable[[], float] = time.monotonic) -> None:
        self.target = target
        self.clock = clock
        self.kernels: list[dict[str, Any]] = []
        self.tuned: list[dict[str, Any]] = []
        self.notes: list[str] = []
        self.failure: CompileFailed | None = None
        self.launches = 0
        self._tuning = False
        self._reads = 0

    def reset(self) -> None:
        """Forget what was recorded, and use the temporary folder the environment names now."""
        self.kernels, self.tuned, self.notes = [], [], []
        self.failure, self.launches, self._reads = None, 0, 0
        tempfile.tempdir = os.environ.get("TMPDIR")

    @contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Run a candidate's forward within it. Raises CompileFailed, also when the candidate swallowed the failure.

        An error of the candidate before its first launch passes through; after it, values that no kernel computed may
        be the cause, so it becomes compile.incomplete.
        """
        self.reset()
        try:
            with _Reads(self):
                yield self
        except CompileFailed:
            raise
        except Exception as error:
            if self.failure is None and self.launches == 0:
                raise
            raise self.failure or self._incomplete(error) from error
        if self.failure is not None:
            raise self.failure

    def _incomplete(self, error: Exception) -> CompileFailed:
        detail = clean(f"{type(error).__name__}: {error}")
        return CompileFailed(
            "compile.incomplete",
            f"forward depends on values a kernel computes, which compiling alone does not know: after {self.launches} "
            f"launches it raised {detail}",
        )

    def on_launch(self, metadata: Any, needs: Resources, grid: tuple[int, int, int]) -> None:
        """Called by the driver in place of a launch."""
        row = {
            "name": metadata.name,
            "grid": list(grid),
            "num_warps": metadata.num_warps,
            "num_stages": metadata.num_stages,
            "regs": needs.regs,
            "spills": needs.spills,
            "shared_bytes": metadata.shared + needs.static_shared_bytes,
            "error": None,
        }
        if self._tuning:
            self.tuned.append(row)
            return
        self.launches += 1
        if len(self.kernels) < KERNEL_LIMIT:
            self.kernels.append(row)
        if any(size > limit for size, limit in zip(grid, _GRID_LIMITS, strict=True)):
            raise CompileFailed("compile.resources", f"grid {grid} of {metadata.name}: at most {_GRID_LIMITS}")

    def fail(self, error: BaseException, path: str, diagnostics: str = "") -> CompileFailed:
        """The failure for an error of Triton; the first one of a recording is kept."""
        if isinstance(error, CompileFailed):
            failure = error
        else:
            reason = "compile.resources" if isinstance(error, OutOfResources) else "compile.error"
            failure = CompileFailed(reason, describe(error, path, diagnostics))
        self.failure = self.failure or failure
        return failure

    def read_back(self) -> None:
        """A value was read after a launch: note it, and stop loops that wait for a kernel's result."""
        if self.launches == 0:
            return
        if self._reads == 0:
            self.notes.append("forward reads values back after a launch; the path taken may differ on a GPU")
        self._reads += 1
        if self._reads > READ_LIMIT:
            message = f"forward read values back {READ_LIMIT} times; it waits for what a kernel computes"
            self.failure = self.failure or CompileFailed("compile.incomplete", message)
            raise self.failure


class _Reads(TorchFunctionMode):  # type: ignore[misc]
    """Tells the recorder when Python looks at a tensor's values."""

    def __init__(self, recorder: Recorder) -> None:
        super().__init__()
        self.recorder = recorder

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _READS:
            self.recorder.read_back()
        return func(*args, **(kwargs or {}))


def install(arch: int) -> Recorder:
    """Make this process compile for sm_<arch>, once, before any candidate is imported. Warms the compiler for forks.

    Raises ValueError for an unknown target and RuntimeError in a process that interprets kernels.
    """
    recorder = Recorder(target(f"sm_{arch}"))
    if triton.knobs.runtime.interpret:
        raise RuntimeError("TRITON_INTERPRET is set: kernels would be interpreted, not compiled")
    cuda_stand_in.install(recorder.target, zero_fill=True)
    stand_in = RecordingDriver(recorder.target, recorder.on_launch)
    driver.set_active(stand_in)
    _check_shared_memory_first(recorder.target)
    warm()
    _record_runs(recorder)
    _record_tuning(recorder)
    return recorder


def _check_shared_memory_first(target: Target) -> None:
    """Refuse what cannot fit before ptxas sees it: it takes half a minute over kernels far too large."""
    original = CUDABackend.make_cubin

    def make_cubin(self: Any, src: Any, metadata: Any, *args: Any, **kwargs: Any) -> Any:
        needed = metadata.get("shared") or 0
        if needed > target.shared_per_block_bytes:
            raise OutOfResources(needed, target.shared_per_block_bytes, "shared memory")
        return original(self, src, metadata, *args, **kwargs)

    CUDABackend.make_cubin = make_cubin


def _record_runs(recorder: Recorder) -> None:
    original = JITFunction.run

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        with _stderr_kept() as diagnostics:
            try:
                return original(self, *args, **kwargs)
            except Exception as error:
                if recorder._tuning:
                    raise  # the autotuner drops what does not fit
                raise recorder.fail(error, self.fn.__code__.co_filename, diagnostics()) from error

    JITFunction.run = run


def _record_tuning(recorder: Recorder) -> None:
    """Every configuration is compiled, none timed; too many or too slow lists are cut, and noted."""
    original_bench, original_prune = Autotuner._bench, Autotuner.prune_configs
    triton.testing.do_bench = _run_once
    triton.testing.do_bench_cudagraph = _run_once

    def prune_configs(self: Any, kwargs: Any) -> Any:
        configs = list(original_prune(self, kwargs))
        self.recorder_deadline, self.recorder_fits = recorder.clock() + TUNING_S, False
        if len(configs) > CONFIG_LIMIT:
            dropped = len(configs) - CONFIG_LIMIT
            recorder.notes.append(f"{self.base_fn.__name__}: {dropped} of {len(configs)} configurations not compiled")
        return configs[:CONFIG_LIMIT]

    def bench(self: Any, *args: Any, config: Any, **meta: Any) -> list[float]:
        if self.recorder_fits and recorder.clock() > self.recorder_deadline:
            note = f"{self.base_fn.__name__}: configurations after {TUNING_S:.0f} s not compiled"
            recorder.notes += [note] if note not in recorder.notes else []
            return [float("inf")] * 3
        self.__dict__["do_bench"] = _run_once
        recorder._tuning = True
        try:
            times = list(original_bench(self, *args, config=config, **meta))
        except Exception as error:
            raise recorder.fail(error, self.base_fn.__code__.co_filename) from error
        finally:
            recorder._tuning = False
        if times[0] == float("inf"):
            recorder.tuned.append(_dropped(self.base_fn.__name__, config))
        else:
            self.recorder_fits = True
        return times

    Autotuner.prune_configs = prune_configs
    Autotuner._bench = bench


def _dropped(name: str, config: Any) -> dict[str, Any]:
    settings = {"num_warps": config.num_warps, "num_stages": config.num_stages}
    return {"name": name, "grid": None, **settings, "regs": None, "spills": None, "shared_bytes": None,
            "error": f"does not fit: {config}"}  # fmt: skip


def _run_once(fn: Callable[[], object], *args: Any, quantiles: Sequence[float] | None = None, **kwargs: Any) -> Any:
    """In place of a benchmark: compile by launching once, every configuration takes one millisecond."""
    del args, kwargs
    fn()
    return [1.0] * len(quantiles) if quantiles else 1.0


@contextmanager
def _stderr_kept() -> Iterator[Callable[[], str]]:
    """Keeps what the compiler's native code prints to standard error; yields a reader of it."""
    kept, saved = os.memfd_create("diagnostics"), os.dup(2)
    os.dup2(kept, 2)

    def read() -> str:
        return os.pread(kept, 64 * 1024, 0).decode(errors="replace")

    try:
        yield read
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(kept)
