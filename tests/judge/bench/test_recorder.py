"""Kernels are compiled for a GPU target without a GPU, and failures say what to change."""

from __future__ import annotations

import pytest

from tests.judge.triton_child import failure, names

FILE = "compiling.py"


@pytest.mark.bench
@pytest.mark.parametrize("check", names(FILE))
def test_check_passes(check: str) -> None:
    found = failure(FILE, "compile", check)
    assert found == "", found
