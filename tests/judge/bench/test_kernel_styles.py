"""Every style of kernel gives right numbers when interpreted and reaches machine code when compiled."""

from __future__ import annotations

import pytest

from tests.judge.triton_child import failure, names

FILE = "styles.py"


@pytest.mark.bench
@pytest.mark.parametrize("check", names(FILE))
@pytest.mark.parametrize("mode", ["interpret", "compile"])
def test_check_passes(mode: str, check: str) -> None:
    found = failure(FILE, mode, check)
    assert found == "", found
