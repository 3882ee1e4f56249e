"""The doors to the preflight: the Celery task and the command, both thin."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from judge import tasks
from judge.devices.models import Device
from judge.management.commands import admit_problem as command
from judge.problems.models import Problem
from judge.values import AdmissionReport, JudgeError
from tests.judge.evaluations.test_evaluation_cache import FakeBench

pytestmark = pytest.mark.django_db
GOOD = AdmissionReport("admitted", flops=1.0)
BAD = AdmissionReport("refused", reason="problem.raises", message="no way")


@pytest.fixture
def problem() -> Problem:
    return Problem.objects.create(slug="p", title="P", source="x = 1", source_hash="0" * 64, origin="upload")


@pytest.fixture
def device() -> Device:
    return Device.objects.create(name="interpreter", kind="interpreter", title="I")


def test_the_task_delivered_twice_leaves_one_report(problem: Problem, device: Device, monkeypatch) -> None:
    bench = FakeBench(GOOD, GOOD)
    monkeypatch.setattr(tasks, "bench_for", lambda device: bench)
    for _ in range(2):
        tasks.admit_problem(problem.pk, device.pk)
    problem.refresh_from_db()
    assert problem.state == Problem.State.ADMITTED and list(problem.admission) == ["interpreter"]


def test_the_task_ends_quietly_when_a_row_is_gone(device: Device, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "bench_for", lambda device: pytest.fail("nothing to run"))
    tasks.admit_problem(0, device.pk)
    tasks.admit_problem(0, 0)


def test_a_judge_fault_in_the_task_is_stored_for_the_page(problem: Problem, device: Device, monkeypatch) -> None:
    monkeypatch.setattr(tasks, "bench_for", lambda device: FakeBench(*[JudgeError("no child")] * 3))
    tasks.admit_problem(problem.pk, device.pk)
    problem.refresh_from_db()
    assert problem.report_for("interpreter")["state"] == "failed"


def run(monkeypatch, report: AdmissionReport, *arguments: str) -> str:
    out = StringIO()
    monkeypatch.setattr(command, "bench_for", lambda device: FakeBench(report))
    call_command("admit_problem", "p", *arguments, stdout=out)
    return out.getvalue()


def test_the_command_prints_each_stage_and_the_end(problem: Problem, monkeypatch) -> None:
    assert "ok      import" in run(monkeypatch, GOOD) and "admitted in" in run(monkeypatch, GOOD)


def test_the_command_prints_json(problem: Problem, monkeypatch) -> None:
    assert json.loads(run(monkeypatch, GOOD, "--json"))["flops"] == 1.0


def test_a_refused_problem_is_an_error_of_the_command(problem: Problem, monkeypatch) -> None:
    with pytest.raises(CommandError, match=r"refused: problem\.raises"):
        run(monkeypatch, BAD)


def test_unknown_problems_and_devices_are_named(problem: Problem, monkeypatch) -> None:
    with pytest.raises(CommandError, match="There is no problem 'nope'"):
        call_command("admit_problem", "nope")
    with pytest.raises(CommandError, match="There is no device 'cuda:7'"):
        call_command("admit_problem", "p", "--device", "cuda:7")
