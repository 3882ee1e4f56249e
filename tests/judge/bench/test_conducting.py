"""Who is waited for before a plan's children start."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.compiling.plan import CompilePlan
from judge.bench.processes.conducting import Conductor
from judge.bench.processes.jobs import EvaluationPlan
from judge.values import JudgeError, Limits


class Started(Exception):
    """As far as these tests go."""


def begun(plan: Any, *, stuck: bool = False) -> list[str]:
    """Which groups of earlier plans are gone when the children of a plan start on a GPU."""
    gone: list[str] = []

    def close(name: str) -> None:
        gone.append(name)
        if stuck:
            raise JudgeError("it could not be killed")

    kept = SimpleNamespace(settle=lambda: gone.append("kept"))
    bench: Any = SimpleNamespace(device="cuda:0", sandbox=False, minimum_sandbox=frozenset(), kept_referees=kept)
    conductor = Conductor(bench)
    groups: Any = [SimpleNamespace(close=lambda name=name: close(name)) for name in ("first", "second")]
    conductor.leaving += groups

    def start(group: Any, **given: str) -> None:
        assert conductor.leaving[-1] is group, "it is known before anything of it lives"
        raise Started

    plan.start = start
    with pytest.raises((Started, JudgeError)):
        conductor.conduct(plan, Limits(), None)
    assert (conductor.settling_s > 0) is (gone != [] and not stuck)
    return gone


def test_an_evaluation_starts_when_nothing_of_earlier_ones_lives():
    assert sorted(begun(EvaluationPlan.__new__(EvaluationPlan))) == ["first", "kept", "second"]
    assert begun(EvaluationPlan.__new__(EvaluationPlan), stuck=True) == ["second"]


def test_a_compilation_uses_no_gpu_and_waits_for_no_context_to_go():
    assert begun(CompilePlan.__new__(CompilePlan)) == []
