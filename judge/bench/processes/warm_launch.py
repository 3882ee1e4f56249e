"""Questions that Triton asks other programs at a process's first launch, asked once before the children are forked."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.backends.nvidia import compiler
from triton.runtime import build


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
