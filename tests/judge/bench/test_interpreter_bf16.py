"""The interpreter rounds bfloat16 and TF32 as a GPU does."""

from __future__ import annotations

import pytest

from tests.judge.triton_child import failure, names

FILE = "bf16.py"


@pytest.mark.bench
@pytest.mark.parametrize("check", names(FILE))
def test_check_passes(check: str) -> None:
    found = failure(FILE, "interpret", check)
    assert found == "", found
