"""A trivial kernel and Triton's questions to other programs, done once before children are forked."""

from __future__ import annotations

import importlib
import os
import tempfile
from collections.abc import Callable
from typing import Any

import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler
from triton.runtime import build


@triton.jit
def copy_one(source, destination):  # type: ignore[no-untyped-def]
    tl.store(destination, tl.load(source))


def warm() -> None:
    """Compile `copy_one` for the active driver in a folder of its own, which is removed."""
    before = os.environ.get("TRITON_CACHE_DIR")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        try:
            cell = torch.zeros(1)
            copy_one[(1,)](cell, cell)
        finally:
            os.environ.pop("TRITON_CACHE_DIR")
            if before is not None:
                os.environ["TRITON_CACHE_DIR"] = before


def remember_answers(arch: int, *, cuda: bool) -> list[str]:
    """Fill Triton's own memories: the assembler's version, the platform, where the driver's library lies.

    Returns what could not be asked; a child then asks by itself, which costs it some 10 ms each.
    """
    nvidia = importlib.import_module("triton.backends.nvidia.driver")
    importlib.import_module("triton.tools.tensor_descriptor")
    questions: dict[str, Callable[[], Any]] = {
        "assembler": lambda: compiler.CUDABackend(GPUTarget("cuda", arch, 32)).hash(),
        "platform": build.platform_key,
    }
    if cuda:
        questions["driver library"] = nvidia.library_dirs
    failed = []
    for name, ask in questions.items():
        try:
            ask()
        except (AttributeError, AssertionError, OSError, RuntimeError, ValueError):  # no such program or library
            failed.append(name)
    return failed
