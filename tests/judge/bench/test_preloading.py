"""Children find everything imported that they use: what each of them would import costs every evaluation."""

from __future__ import annotations

import pytest

from judge.values import Verdict
from tests.judge.bench_problems import TRITON, judge

pytestmark = pytest.mark.bench

TELL = """        new = set(sys.modules) - BEFORE
        print('imported:', *sorted(name for name in new if name.startswith(('torch', 'triton'))))
        return y
"""
WATCHED = "import sys\n" + TRITON.replace("        return y\n", TELL) + "\nBEFORE = set(sys.modules)\n"


def test_a_launch_imports_nothing_more(interpreter_bench) -> None:
    outcome = judge(interpreter_bench, WATCHED)
    assert outcome.verdict is Verdict.PASS, outcome.message
    assert {line.strip() for line in outcome.log.splitlines()} == {"imported:"}
