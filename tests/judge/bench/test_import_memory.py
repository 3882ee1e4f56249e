"""A module that asks for too much memory at import is told so, in words a person can act on."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.admission.preflight import _report
from judge.values import DEFAULT_POLICY, StageRecord

TOO_MUCH = "raise RuntimeError('DefaultCPUAllocator: can\\'t allocate memory: you tried to allocate 4 TB')"


@pytest.mark.parametrize(("line", "reason"), [(TOO_MUCH, "problem.memory"), ("raise KeyError('x')", "problem.raises")])
def test_memory_is_told_from_other_faults(tmp_path: Path, line: str, reason: str) -> None:
    stages: list[StageRecord] = []
    boss = SimpleNamespace(send=lambda message: None)
    payload: dict[str, Any] = {"source": line, "case": None, "device": "cpu"}
    assignment: Any = SimpleNamespace(
        payload=payload, boss=boss, folder=tmp_path, target="sm_90", device="cpu", links=[]
    )
    report = _report(assignment, stages.append, DEFAULT_POLICY)
    assert (report.state, report.reason) == ("refused", reason)
    assert stages[0].state == "failed"
    assert ("more memory than this device may use" in report.message) == (reason == "problem.memory")
