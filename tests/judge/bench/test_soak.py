"""The short form of the soak; `python -m tests.judge.soak` is the long one."""

from __future__ import annotations

import pytest

from tests.judge.soak import soak
from tests.judge.soak_candidates import hostile, subjects

pytestmark = pytest.mark.bench


def test_two_dozen_evaluations_a_third_hostile_leave_nothing_behind(cpu_bench) -> None:
    report = soak(cpu_bench, count=24, seed=1)
    assert report.faults == []
    assert (report.count, report.hostile) == (24, 8)


def test_every_kind_of_attack_is_tried_on_some_device() -> None:
    for one in hostile():
        assert any(one.name in {other.name for other in subjects(device)[1]} for device in ("cpu", "cuda:0"))
    assert len(hostile()) >= 20
