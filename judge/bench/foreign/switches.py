"""Process-wide switches of torch: set to what a policy says, read again after foreign code ran, and put back."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch

from judge.values import SWITCHES, JudgeError, Policy, Switches

MIXED = "mixed"  # torch refuses to read a switch that was set through two of its interfaces
_TINY = torch.full((), 1e-40)  # a denormal: zero once they are flushed


@dataclass(frozen=True)
class Switch:
    """One setting, under the name a person knows it by. Two that mean the same share a name."""

    name: str
    read: Callable[[], Any]
    write: Callable[[Any], object]

    def value(self) -> Any:
        try:
            return self.read()
        except RuntimeError:
            return MIXED


def neutral(policy: Policy, *, benchmark: bool = False) -> None:
    """The same numerics for reference, baselines and candidate: TF32 as the policy says, no search for algorithms.

    `benchmark`: let cuDNN try its algorithms, as one of the baselines does. Raises JudgeError where torch reads back
    otherwise.
    """
    wanted = SWITCHES[policy.precision]
    torch.backends.cuda.matmul.allow_tf32 = wanted.matmul  # sets float32_matmul_precision and fp32_precision, too
    torch.backends.cudnn.allow_tf32 = wanted.cudnn
    torch.backends.cudnn.benchmark = benchmark
    asked, found = numerics_of(policy), numerics_now()
    if found != asked:
        raise JudgeError(f"torch's switches stand at {found}, although {asked} was asked for")


FULL = "ieee"  # no digit is dropped; torch also says "none"
_NUMERICS: dict[str, Callable[[Switches], Any]] = {  # which switches decide where torch uses TF32, and what they say
    "backends.cuda.matmul.allow_tf32": lambda wanted: wanted.matmul,
    "backends.cudnn.allow_tf32": lambda wanted: wanted.cudnn,
    "backends.cuda.matmul.fp32_precision": lambda wanted: "tf32" if wanted.matmul else FULL,
    "backends.cudnn.conv.fp32_precision": lambda wanted: "tf32" if wanted.cudnn else FULL,
    "backends.cudnn.rnn.fp32_precision": lambda wanted: "tf32" if wanted.cudnn else FULL,
    "float32_matmul_precision": lambda wanted: "high" if wanted.matmul else "highest",
}


def numerics_of(policy: Policy) -> dict[str, Any]:
    """By name what `numerics_now` says once `neutral` has set this policy."""
    wanted = SWITCHES[policy.precision]
    return {switch.name: _NUMERICS[path](wanted) for path, switch in _numerics()}


def numerics_now() -> dict[str, Any]:
    """The switches that decide where torch uses TF32, as far as this torch has them, as they stand."""
    values = {switch.name: switch.value() for _, switch in _numerics()}
    return {name: FULL if value == "none" else value for name, value in values.items()}


def _numerics() -> Iterator[tuple[str, Switch]]:
    for path in _NUMERICS:
        found = _attribute(path) if "." in path else [_matmul_precision()]
        yield from ((path, switch) for switch in found)


class Switchboard:
    """Remembers every switch as it stands when made; `restore` returns what has been changed since and undoes it."""

    def __init__(self, device: str) -> None:
        self._switches = list(_all(device))
        self._expected = [switch.value() for switch in self._switches]

    def restore(self) -> list[str]:
        """Names of the switches that stand otherwise, each of them put back. A few microseconds when none does."""
        changed: dict[str, None] = {}
        for switch, expected in zip(self._switches, self._expected, strict=True):
            if switch.value() != expected:
                changed[switch.name] = None
        if changed:
            for switch, expected in zip(self._switches, self._expected, strict=True):
                if expected != MIXED and switch.value() != expected:
                    with contextlib.suppress(RuntimeError):  # a value torch reports but does not take back
                        switch.write(expected)
        return list(changed)


# In torch, as far as a version has them. The newer interface first: writing it makes the older names readable again.
ATTRIBUTES = (
    "backends.fp32_precision",
    "backends.cuda.matmul.fp32_precision",
    "backends.cudnn.fp32_precision",
    "backends.cudnn.conv.fp32_precision",
    "backends.cudnn.rnn.fp32_precision",
    "backends.mkldnn.matmul.fp32_precision",
    "backends.cuda.matmul.allow_tf32",
    "backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
    "backends.cuda.matmul.allow_fp16_accumulation",
    "backends.cudnn.allow_tf32",
    "backends.cudnn.benchmark",
    "backends.cudnn.deterministic",
    "backends.cudnn.enabled",
)


def _all(device: str) -> Iterator[Switch]:
    for path in ATTRIBUTES:
        yield from _attribute(path)
    yield _matmul_precision()
    yield Switch("default_dtype", torch.get_default_dtype, torch.set_default_dtype)
    yield Switch("default_device", torch.get_default_device, _to_default_device)
    yield Switch("deterministic_algorithms", torch.get_deterministic_debug_mode, torch.set_deterministic_debug_mode)
    yield Switch("num_threads", torch.get_num_threads, torch.set_num_threads)
    yield Switch("flush_denormal", lambda: float(_TINY * 1) == 0, torch.set_flush_denormal)
    yield Switch("anomaly_detection", torch.is_anomaly_enabled, torch.autograd.set_detect_anomaly)
    yield Switch("inference_mode", torch.is_inference_mode_enabled, lambda value: None)
    yield from _autocast()
    yield from _attention_backends()
    yield from _allocator()
    if device != "cpu":
        yield Switch("current_device", torch.cuda.current_device, torch.cuda.set_device)
        yield Switch("current_stream", torch.cuda.current_stream, torch.cuda.set_stream)


def _attribute(path: str) -> Iterator[Switch]:
    place, _, name = path.rpartition(".")
    owner: Any = torch
    for part in place.split("."):
        owner = getattr(owner, part, None)
    if hasattr(owner, name):
        yield Switch(f"torch.{path}", lambda: getattr(owner, name), lambda value: setattr(owner, name, value))


def _matmul_precision() -> Switch:
    return Switch("float32_matmul_precision", torch.get_float32_matmul_precision, torch.set_float32_matmul_precision)


def _to_default_device(device: torch.device) -> None:
    torch.set_default_device(None if device.type == "cpu" else device)


def _autocast() -> Iterator[Switch]:
    for kind in ("cuda", "cpu"):
        yield Switch(
            f"autocast.{kind}",
            lambda kind=kind: torch.is_autocast_enabled(kind),  # type: ignore[misc]
            lambda value, kind=kind: torch.set_autocast_enabled(kind, value),  # type: ignore[misc]
        )


def _attention_backends() -> Iterator[Switch]:
    cuda = torch.backends.cuda
    for name in ("flash", "mem_efficient", "math", "cudnn"):
        read, write = getattr(cuda, f"{name}_sdp_enabled", None), getattr(cuda, f"enable_{name}_sdp", None)
        if read is not None and write is not None:
            yield Switch(f"torch.backends.cuda.{name}_sdp", read, write)
    yield Switch("preferred_linalg_library", cuda.preferred_linalg_library, cuda.preferred_linalg_library)
    if hasattr(cuda, "preferred_blas_library"):
        yield Switch("preferred_blas_library", cuda.preferred_blas_library, cuda.preferred_blas_library)


def _allocator() -> Iterator[Switch]:
    """Settings of the caching allocator; only their text can be read, and not in every torch."""
    read = getattr(torch._C, "_accelerator_getAllocatorSettings", None)
    write = getattr(torch._C, "_accelerator_setAllocatorSettings", None)
    if read is not None and write is not None:
        yield Switch("allocator_settings", read, write)
