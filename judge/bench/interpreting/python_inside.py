"""What runs inside an interpreted kernel beside the kernel: torch, NumPy, Python functions. No GPU could run it there.

An interpreted kernel is a Python function, so whatever it reaches runs as it is. A compiler sees only what the kernel
was given to it with, which may have looked otherwise.
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType, ModuleType
from typing import Any

import numpy as np
import torch
import triton

from judge.bench.interpreting.kernel_code import is_kernel

MOST_NAMES = 20
LIBRARIES = ("torch", "numpy")
_DEFINITION = "<module>"  # in which the interpreter defines a kernel anew
_TORCH = str(Path(torch.__file__).parent) + "/"
_OWN = tuple(
    f"{folder}/"
    for folder in (
        Path(triton.__file__).parent,
        Path(np.__file__).parent,
        Path(__file__).parents[1],
        sysconfig.get_paths()["stdlib"],
    )
)
_CONSTANTS = (
    triton.runtime.jit.ConstexprFunction.__call__.__code__ if hasattr(triton.runtime.jit, "ConstexprFunction") else None
)  # computes on constants, in Python on a GPU as well


@contextmanager
def watching(found: list[str], beside: list[str]) -> Iterator[None]:
    """Within it, which is a launch, `found` gets the name of what a kernel calls and no compiler could have compiled.
    `beside` gets that of other Python code which is called before or after the kernel, such as a hook."""
    before = sys.getprofile()
    watch = InsideWatch(found, beside)
    sys.setprofile(watch)
    try:
        yield
        if sys.getprofile() is not watch:
            watch.note("sys.setprofile")
    finally:
        sys.setprofile(before)


class InsideWatch:
    """Told of every call by Python's profiler."""

    def __init__(self, found: list[str], beside: list[str]) -> None:
        self.found = found
        self.beside = beside
        self._trusted: dict[CodeType, bool] = {}

    def __call__(self, frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            self._called(frame)
        elif event == "c_call" and not self._is_trusted(frame.f_code) and _in_kernel(frame):
            library = _owner(arg).partition(".")[0]
            if library in LIBRARIES:
                self.note(f"{library}.{getattr(arg, '__name__', arg)}")

    def _called(self, frame: FrameType) -> None:
        code, caller = frame.f_code, frame.f_back
        if caller is None or is_kernel(code):
            return
        if code.co_filename.startswith(_TORCH):
            if not self._is_trusted(caller.f_code) and _in_kernel(caller):
                self.note(f"torch.{code.co_name}")
        elif self._is_trusted(code) or caller.f_code is _CONSTANTS or _is_generated(frame):
            return
        elif _in_kernel(caller):
            self.note(code.co_name)
        elif code.co_name not in (*self.beside, _DEFINITION) and len(self.beside) < MOST_NAMES:
            self.beside.append(code.co_name[:80])

    def _is_trusted(self, code: CodeType) -> bool:
        """Whether it belongs to Triton, its interpreter or ours, whose own use of NumPy and torch is the kernel's."""
        known = self._trusted.get(code)
        if known is None:
            path = code.co_filename
            known = self._trusted[code] = path.startswith(_OWN) or path.startswith((_TORCH, "<frozen"))
        return known

    def note(self, name: str) -> None:
        if name not in self.found and len(self.found) < MOST_NAMES:
            self.found.append(name[:80])


def _is_generated(frame: FrameType) -> bool:
    """Constructors of Triton's own dataclasses, and of named tuples; what they call is looked at all the same."""
    code = frame.f_code
    if code.co_filename != "<string>":
        return False
    return str(frame.f_globals.get("__file__", "")).startswith(_OWN) or set(code.co_names) <= {"_tuple_new"}


def _in_kernel(frame: FrameType | None) -> bool:
    while frame is not None:
        if is_kernel(frame.f_code):
            return True
        frame = frame.f_back
    return False


def _owner(function: Any) -> str:
    """The module that a built-in function or method belongs to."""
    owner = getattr(function, "__self__", None)
    if isinstance(owner, ModuleType):
        return owner.__name__
    if owner is None:
        return str(getattr(function, "__module__", "") or "")
    return str((owner if isinstance(owner, type) else type(owner)).__module__)
