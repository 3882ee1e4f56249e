"""Evaluations and preflights as stored: reuse of equal candidates, retries of the judge, whole or nothing."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta

import pytest

from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.evaluations.services import evaluation_run
from judge.problems.admission import TOO_BIG, admission_stalled, problem_admit
from judge.problems.models import Problem
from judge.values import (
    AdmissionReport,
    Audit,
    Basis,
    JudgeError,
    Outcome,
    Speedup,
    StageRecord,
    Subject,
    Timing,
    Verdict,
)

pytestmark = pytest.mark.django_db

PASS = Outcome(
    Verdict.PASS,
    stage="timing",
    loads=True,
    timings=(
        Timing(Subject.CANDIDATE, Basis.MODELLED, "traffic_model", (10.0, 11.0), 10.5, 9.0, 12.0),
        Timing(Subject.EAGER, Basis.MODELLED, "traffic_model", (20.0, 22.0), 21.0, 18.0, 24.0),
    ),
    speedup=Speedup(2.0, 1.5, 2.6, 2, Basis.MODELLED),
    log="printed \x00 nothing",
)
WRONG = Outcome(Verdict.WRONG, stage="correctness", reason="value.mismatch", message="off by 3")


class FakeBench:
    """Answers like judge.bench.runner.Bench, from a list; an exception in it is raised."""

    def __init__(self, *answers: object, toolchain: str = "torch 2.13 triton 3.7") -> None:
        self.answers, self.toolchain, self.jobs = list(answers), toolchain, []

    def facts(self) -> dict[str, object]:
        return {"toolchain": self.toolchain}

    def _next(self) -> object:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def evaluate(self, job, *, progress=None):
        self.jobs.append(job)
        return self._next()

    def seal(self, problem, *, seed, limits=None):
        return ()

    def time_baselines(self, problem, *, limits=None):
        return ()

    def admit(self, problem, *, limits=None, progress=None):
        self.jobs.append(problem)
        if progress is not None:
            progress(StageRecord("import", "ok", 1.0))
        return self._next()


@pytest.fixture
def problem() -> Problem:
    source = 'def get_cases():\n    return {"gpu": {"N": 4}}\n'
    return Problem.objects.create(slug="p", title="P", source=source, source_hash="0" * 64, origin="upload")


@pytest.fixture
def device() -> Device:
    return Device.objects.create(name="interpreter", kind="interpreter", title="I")


def test_an_equal_candidate_is_reused(problem: Problem, device: Device) -> None:
    bench = FakeBench(WRONG)
    first, reused = evaluation_run(problem=problem, device=device, source="x = 1  # a", bench=bench)
    again, reused_again = evaluation_run(problem=problem, device=device, source="\n# b\nx = 1\n", bench=bench)
    assert (reused, reused_again) == (False, True) and again.pk == first.pk and len(bench.jobs) == 1


@pytest.mark.parametrize("change", ["device", "toolchain", "source"])
def test_another_device_toolchain_or_text_is_judged_again(problem: Problem, device: Device, change: str) -> None:
    evaluation_run(problem=problem, device=device, source="x = 1", bench=FakeBench(WRONG))
    if change == "device":
        device = Device.objects.create(name="cuda:0", kind="cuda", title="G")
    bench = FakeBench(WRONG, toolchain="new" if change == "toolchain" else "torch 2.13 triton 3.7")
    source = "x = 2" if change == "source" else "x = 1"
    assert evaluation_run(problem=problem, device=device, source=source, bench=bench)[1] is False


@pytest.mark.parametrize("verdict", [Verdict.LOST, Verdict.CANCELLED])
def test_lost_and_cancelled_are_never_reused(problem: Problem, device: Device, verdict: Verdict) -> None:
    bench = FakeBench(Outcome(verdict, stage="judge", reason="x"), WRONG)
    evaluation_run(problem=problem, device=device, source="x = 1", bench=bench)
    evaluation, reused = evaluation_run(problem=problem, device=device, source="x = 1", bench=bench)
    assert not reused and evaluation.verdict == Verdict.WRONG


def test_a_pass_keeps_samples_and_headline(problem: Problem, device: Device) -> None:
    evaluation, _ = evaluation_run(problem=problem, device=device, source="x = 1", bench=FakeBench(PASS))
    evaluation.refresh_from_db()
    assert (evaluation.speedup, evaluation.speedup_low, evaluation.basis) == (2.0, 1.5, "modelled")
    rows = {row.subject: row for row in evaluation.measurements.all()}
    assert rows["candidate"].samples_us == [10.0, 11.0] and rows["eager"].n == 2
    assert "samples_us" not in evaluation.report["timings"][0] and "\x00" not in evaluation.report["log"]


def test_a_judge_fault_is_retried_twice(problem: Problem, device: Device) -> None:
    bench = FakeBench(JudgeError("a"), JudgeError("b"), WRONG)
    evaluation, _ = evaluation_run(problem=problem, device=device, source="x = 1", bench=bench)
    assert evaluation.verdict == Verdict.WRONG and len(bench.jobs) == 3


def test_the_third_judge_fault_is_lost(problem: Problem, device: Device) -> None:
    bench = FakeBench(*[JudgeError("no child")] * 3)
    ticks = iter([10.0, 12.5])
    evaluation, _ = evaluation_run(
        problem=problem, device=device, source="x = 1", bench=bench, clock=lambda: next(ticks)
    )
    assert (evaluation.verdict, evaluation.message) == (Verdict.LOST, "no child")
    assert evaluation.wall_ms == 2500.0  # the device was taken all the same


def test_a_gpu_judges_the_gpu_case_and_the_interpreter_the_plain_constants(problem: Problem, device: Device) -> None:
    gpu = Device.objects.create(name="cuda:0", kind="cuda", title="G")
    cases = []
    for place in (device, gpu):
        bench = FakeBench(WRONG)
        evaluation_run(problem=problem, device=place, source="x = 1", bench=bench)
        cases.append(bench.jobs[0].problem.case)
    assert cases == [None, "gpu"]


def test_a_measurement_that_cannot_be_stored_leaves_no_evaluation(problem: Problem, device: Device) -> None:
    twice = Outcome(Verdict.PASS, stage="timing", loads=True, timings=(PASS.timings[0], PASS.timings[0]))
    from django.db import IntegrityError

    with pytest.raises(IntegrityError):
        evaluation_run(problem=problem, device=device, source="x = 1", bench=FakeBench(twice))
    assert not Evaluation.objects.exists()


def test_a_preflight_is_visible_while_it_runs_and_stored_at_the_end(problem: Problem, device: Device) -> None:
    seen = []

    def look(stage: StageRecord) -> None:
        entry = Problem.objects.get(pk=problem.pk).report_for("interpreter")
        seen.append((entry["state"], [row["name"] for row in entry["stages"]]))

    report = problem_admit(
        problem=problem, device=device, bench=FakeBench(AdmissionReport("admitted", flops=1.0)), on_stage=look
    )
    assert seen == [("running", ["import"]), ("running", ["import", "sealed"])] and report.state == "admitted"
    problem.refresh_from_db()
    assert problem.state == Problem.State.ADMITTED and AdmissionReport.from_json(problem.report_for("interpreter"))


def test_a_failed_import_keeps_its_line_in_the_stored_report(problem: Problem, device: Device) -> None:
    refused = AdmissionReport("refused", reason="problem.raises")
    problem_admit(problem=problem, device=device, bench=FakeBench(refused))
    assert [stage["name"] for stage in problem.report_for("interpreter")["stages"]] == ["import"]


def test_too_big_for_the_interpreter_does_not_refuse_the_problem_elsewhere(problem: Problem, device: Device) -> None:
    bench = FakeBench(AdmissionReport("refused", reason=TOO_BIG))
    problem_admit(problem=problem, device=device, bench=bench)
    assert problem.state == Problem.State.PENDING
    gpu = Device.objects.create(name="cuda:0", kind="cuda", title="G")
    problem_admit(problem=problem, device=gpu, bench=FakeBench(AdmissionReport("admitted")))
    assert problem.state == Problem.State.ADMITTED and set(problem.admission) == {"interpreter", "cuda:0"}


def test_a_judge_fault_in_a_preflight_is_shown_and_blames_nobody(problem: Problem, device: Device) -> None:
    with pytest.raises(JudgeError):
        problem_admit(problem=problem, device=device, bench=FakeBench(*[JudgeError("no child")] * 3))
    problem.refresh_from_db()
    entry = problem.report_for("interpreter")
    assert entry["state"] == "failed" and "no child" in entry["message"]
    assert problem.state == Problem.State.PENDING


def test_computed_case_names_are_found_by_the_first_preflight(problem: Problem, device: Device) -> None:
    problem.source = "def get_cases():\n    return dict(interpreter={})\n"
    bench = FakeBench(
        AdmissionReport("admitted", cases=("interpreter",)),
        AdmissionReport("admitted", cases=("interpreter",), case="interpreter"),
    )
    assert problem_admit(problem=problem, device=device, bench=bench).case == "interpreter"
    assert [spec.case for spec in bench.jobs] == [None, "interpreter"]


def test_a_preflight_whose_worker_died_can_be_told_from_a_running_one() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    entry = {"state": "running", "stages": [], "started": (now - timedelta(hours=1)).isoformat()}
    assert admission_stalled(entry, now=now)
    assert not admission_stalled({**entry, "started": now.isoformat()}, now=now)
    assert not admission_stalled({"state": "admitted"}, now=now)


def test_a_known_pass_is_judged_again_only_when_it_would_be_a_best_without_an_audit(problem, device):
    audited = dataclasses.replace(PASS, audit=Audit.PASSED)
    bench = FakeBench(PASS, audited)
    evaluation_run(problem=problem, device=device, source="x = 1", bench=bench, beat=2.5, incumbent="y = 1")
    assert (bench.jobs[0].beat, bench.jobs[0].incumbent) == (2.5, "y = 1")
    assert evaluation_run(problem=problem, device=device, source="x = 1", bench=bench, beat=2.0)[1] is True
    again, reused = evaluation_run(problem=problem, device=device, source="x = 1", bench=bench, beat=1.9)
    assert (again.audit, again.may_be_best, reused) == ("passed", True, False)
    known, reused = evaluation_run(problem=problem, device=device, source="x = 1", bench=bench)
    assert (known.pk, reused) == (again.pk, True)


def test_only_an_audited_or_a_reported_speedup_may_be_a_best(problem, device):
    evaluation, _ = evaluation_run(problem=problem, device=device, source="x = 1", bench=FakeBench(PASS))
    assert not evaluation.may_be_best
    evaluation.basis = "reported"
    assert evaluation.may_be_best
