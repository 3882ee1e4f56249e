"""Every gap of Triton's interpreter is closed, or named as unsupported."""

from __future__ import annotations

import pytest

from tests.judge.triton_child import failure, names

FILE = "gaps.py"


@pytest.mark.bench
@pytest.mark.parametrize("check", names(FILE))
def test_check_passes(check: str) -> None:
    found = failure(FILE, "interpret", check)
    assert found == "", found
