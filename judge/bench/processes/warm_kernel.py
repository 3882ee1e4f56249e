"""A trivial kernel, compiled once in the parent so that children forked from it start with a warm compiler."""

from __future__ import annotations

import os
import tempfile

import torch
import triton
import triton.language as tl


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
