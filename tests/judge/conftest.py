"""Benches shared by the judge's tests: started once, because loading torch takes seconds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from judge.runner import Bench


@pytest.fixture(scope="session")
def cpu_bench() -> Iterator[Bench]:
    """Torch-only candidates on the CPU with a wall clock: the same road as CUDA."""
    with Bench("cpu", compile_baseline=False) as bench:
        yield bench


@pytest.fixture(scope="session")
def interpreter_bench() -> Iterator[Bench]:
    with Bench("interpreter") as bench:
        yield bench
