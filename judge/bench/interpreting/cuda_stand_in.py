"""Lets code written for CUDA run on CPU tensors: devices are remapped, `torch.cuda` answers for the target.

Candidate code sees `x.is_cuda` and `x.device` as on a GPU, since kernels often refuse anything else; torch, triton and
the bench itself see the truth. Used by the interpreter and the recorder alike, installed once a process.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, Self

import torch
import triton
from torch.overrides import TorchFunctionMode

from judge.bench.interpreting.targets import Target


def _none(*args: Any, **kwargs: Any) -> None:
    pass


def _zero(*args: Any, **kwargs: Any) -> int:
    return 0


class StandInStream:
    """A stream that is always done. Works as a context manager and where an integer handle is read."""

    cuda_stream = 0
    stream_id = 0
    device_index = 0
    device = torch.device("cuda", 0)
    __init__ = __exit__ = synchronize = wait_stream = wait_event = _none

    def __enter__(self) -> Self:
        return self

    def record_event(self, event: Any = None) -> Any:
        return event or StandInEvent()

    def query(self) -> bool:
        return True


class StandInEvent:
    """An event that has happened. Times between events are one millisecond: there is no clock to read."""

    __init__ = record = wait = synchronize = _none

    def query(self) -> bool:
        return True

    def elapsed_time(self, other: Any) -> float:
        return 1.0


@contextmanager
def _nothing(*args: Any, **kwargs: Any) -> Iterator[None]:
    yield


def _own(answer: Any) -> Any:
    """A function object of its own: torch's compiler keeps rules by object and refuses one under two names."""
    return answer if isinstance(answer, type) else functools.wraps(answer)(lambda *a, **k: answer(*a, **k))


def device_properties(target: Target) -> SimpleNamespace:
    """What `torch.cuda.get_device_properties` would say of the target, as far as the table knows."""
    major, minor = target.capability
    return SimpleNamespace(
        name=target.title,
        major=major,
        minor=minor,
        multi_processor_count=target.sm_count,
        warp_size=32,
        max_threads_per_multi_processor=2048 if target.arch in (80, 90, 100) else 1536,
        max_threads_per_block=1024,
        regs_per_multiprocessor=65536,
        shared_memory_per_block=48 * 1024,
        shared_memory_per_block_optin=target.shared_per_block_bytes,
        shared_memory_per_multiprocessor=target.shared_per_block_bytes + 1024,
        L2_cache_size=target.l2_bytes,
        total_memory=24 * 1024**3,
        gcnArchName="",
        is_integrated=0,
    )


_WITHOUT_EFFECT = (
    "init", "set_device", "synchronize", "set_stream", "empty_cache", "ipc_collect", "reset_peak_memory_stats",
    "manual_seed", "manual_seed_all", "seed", "set_rng_state", "set_rng_state_all",
)  # fmt: skip
_ZERO = ("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved", "max_memory_reserved")


def patch_torch_cuda(target: Target) -> None:
    """Replace the functions of `torch.cuda` that need a device. Random state falls to the CPU generator."""
    cuda: Any = torch.cuda
    memory = 24 * 1024**3
    answers: dict[str, Any] = {
        "is_available": lambda: True,
        "is_initialized": lambda: True,
        "device_count": lambda: 1,
        "get_device_name": lambda device=None: target.title,
        "get_device_capability": lambda device=None: target.capability,
        "get_device_properties": lambda device=None: device_properties(target),
        "get_arch_list": lambda: [target.name],
        "is_bf16_supported": lambda including_emulation=True: True,
        "current_stream": StandInStream,
        "default_stream": StandInStream,
        "Stream": StandInStream,
        "Event": StandInEvent,
        "mem_get_info": lambda device=None: (memory, memory),
        "get_rng_state": lambda device="cuda": torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        **dict.fromkeys(_WITHOUT_EFFECT, _none),
        **dict.fromkeys(_ZERO, _zero),
        **dict.fromkeys(("stream", "device", "device_of"), _nothing),
    }
    for name, answer in answers.items():
        setattr(cuda, name, _own(answer))
    for name in ("range_push", "range_pop", "mark"):
        setattr(cuda.nvtx, name, _own(_none))
    cuda.nvtx.range = _own(_nothing)
    torch.Generator = StandInGenerator
    _remap_autocast()


class StandInGenerator(torch._C.Generator):  # type: ignore[misc]
    """A generator for any device is the CPU's."""

    def __new__(cls, device: Any = "cpu") -> Self:
        return super().__new__(cls, "cpu")  # type: ignore[no-any-return]


def _remap_autocast() -> None:
    """`torch.autocast("cuda")` becomes the CPU's with CUDA's default type, half precision."""
    original = torch.autocast.__init__
    if getattr(original, "stands_in", False):
        return

    def __init__(self: Any, device_type: str, dtype: Any = None, *args: Any, **kwargs: Any) -> None:
        if device_type == "cuda":
            device_type, dtype = "cpu", dtype or torch.float16
        original(self, device_type, dtype, *args, **kwargs)

    __init__.stands_in = True  # type: ignore[attr-defined]
    torch.autocast.__init__ = __init__


CPU = torch.device("cpu")

_TRUTHFUL = tuple(
    f"{folder}/" for folder in (Path(torch.__file__).parent, Path(triton.__file__).parent, Path(__file__).parents[1])
)
_GETTERS = {
    torch.Tensor.is_cuda.__get__: True,
    torch.Tensor.is_cpu.__get__: False,
    torch.Tensor.device.__get__: torch.device("cuda", 0),
    torch.Tensor.get_device: 0,
}
_TO_HOST = ("numpy", "__array__", "__dlpack__", "tolist")
MOST_READ = 256  # numbers that one call of forward may read back as lists
_UNINITIALISED = {
    torch.empty: torch.zeros,
    torch.empty_like: torch.zeros_like,
    torch.Tensor.new_empty: torch.Tensor.new_zeros,
}


def is_cuda_device(value: Any) -> bool:
    """Whether a value names a CUDA device: a torch.device or a string such as "cuda:0"."""
    if isinstance(value, torch.device):
        return bool(value.type == "cuda")
    return isinstance(value, str) and (value == "cuda" or value.startswith("cuda:"))


class CudaStandIn(TorchFunctionMode):  # type: ignore[misc]
    """Rewrites devices in torch calls. `zero_fill`: uninitialised memory reads as zero, so that runs repeat."""

    def __init__(self, *, zero_fill: bool) -> None:
        super().__init__()
        self.zero_fill = zero_fill
        self.computing = False  # within a forward call
        self.read = 0  # numbers that this call has read back as lists

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.device:
            return func(*args, **kwargs)
        if func in _GETTERS:
            on_gpu = _called_by_candidate() and not args[0].is_meta
            return _GETTERS[func] if on_gpu else func(*args, **kwargs)
        if func is torch.Tensor.cuda or func is torch.Tensor.pin_memory:
            return args[0]
        if self.zero_fill:
            func = _UNINITIALISED.get(func, func)
        if any(map(is_cuda_device, args)):
            args = tuple(CPU if is_cuda_device(value) else value for value in args)
        return func(*args, **_on_cpu(func, args, kwargs))


def _on_cpu(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    device = kwargs.get("device")
    if is_cuda_device(device) or type(device) is int:
        kwargs = {**kwargs, "device": CPU}
    if kwargs.get("pin_memory"):
        kwargs = {**kwargs, "pin_memory": False}
    return kwargs


def _called_by_candidate() -> bool:
    """Whether the code that reads the attribute belongs neither to torch, triton nor the bench."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_name == "__torch_function__":  # other modes on the way
        frame = frame.f_back
    return frame is None or not frame.f_code.co_filename.startswith(_TRUTHFUL)


def _asked_by_candidate() -> bool:
    """As `_called_by_candidate`, also where torch's own Python is on the way."""
    frame: FrameType | None = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_TRUTHFUL[0]):
        frame = frame.f_back
    return frame is None or not frame.f_code.co_filename.startswith(_TRUTHFUL)


def _guard_host() -> None:
    """No tensor's content is given to the host while forward runs, in whatever thread: a mode belongs to one."""
    for name in _TO_HOST:
        setattr(torch.Tensor, name, _guarded(getattr(torch.Tensor, name)))


def _guarded(read: Any) -> Any:
    @functools.wraps(read)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        if _installed is not None and _installed.computing and _asked_by_candidate():
            _installed.read += self.numel()
            if read.__name__ != "tolist" or _installed.read > MOST_READ:
                what = f"what the host does with {read.__name__}() of a tensor in forward()"
                raise HostAccess(f"{what} is not counted, so it is judged on a GPU only")
        return read(self, *args, **kwargs)

    return guarded


class HostAccess(Exception):
    """A tensor is read as host memory where all work should be on the device."""


@contextmanager
def computing() -> Iterator[None]:
    """Within it, which is a call of forward, no tensor is given to NumPy."""
    before = _installed.computing if _installed is not None else False
    try:
        if _installed is not None:
            _installed.computing, _installed.read = True, 0
        yield
    finally:
        if _installed is not None:
            _installed.computing = before


_installed: CudaStandIn | None = None


def install(target: Target, *, zero_fill: bool = False) -> CudaStandIn:
    """Put the stand-in under this thread for good, and let `torch.cuda` answer for `target`. Idempotent."""
    global _installed
    if _installed is None:
        _guard_host()
        _installed = CudaStandIn(zero_fill=zero_fill)
        _installed.__enter__()
    patch_torch_cuda(target)
    return _installed
