"""Retries of what the bench could not do, and the toolchain of a bench."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from judge.bench.runner import Bench
from judge.values import (
    JudgeError,
)

Result = TypeVar("Result")


RETRIES = 2


def with_retries(attempt: Callable[[], Result]) -> Result:
    """Call `attempt`, again after each of the first two JudgeErrors; the third is raised."""
    for _ in range(RETRIES):
        try:
            return attempt()
        except JudgeError:
            continue
    return attempt()


def toolchain_of(bench: Bench) -> str:
    """Versions that decide what a verdict means, e.g. "torch 2.13.0 triton 3.7.1 sm_90"."""
    return str(bench.facts()["toolchain"])[:120]
