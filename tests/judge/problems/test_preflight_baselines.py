"""A preflight on a GPU times the baselines of its problem, so that no best kernel waits for them."""

from __future__ import annotations

import pytest
from django.utils import timezone

from judge.bench.device.statistics import timing_of
from judge.problems.admission import admission_queue, problem_admit
from judge.problems.preflight import preflight
from judge.templatetags.stages import stage_lines
from judge.values import AdmissionReport, JudgeError, Subject
from tests.judge.gpu_rows import gpu
from tests.search.fakes import FakeBench
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db


class TimingBench(FakeBench):
    """Admits, and has times of two baselines, or fails."""

    def __init__(self, *, fails: bool = False, state: str = "admitted") -> None:
        super().__init__()
        self.fails, self.state, self.asked = fails, state, []

    def admit(self, problem, *, limits=None, progress=None):
        return AdmissionReport(self.state, case="gpu", reason="" if self.state == "admitted" else "problem.raises")

    def time_baselines(self, problem, *, limits=None):
        self.asked.append(problem.case)
        if self.fails:
            raise JudgeError("no GPU today")
        return tuple(
            timing_of(subject, [us] * 16, "cuda_events")
            for subject, us in ((Subject.COMPILE, 297.4), (Subject.SHIPPED, 1128.8))
        )


def test_it_tells_their_times_and_keeps_the_stage():
    row, bench, told = make_problem(), TimingBench(), []
    found = problem_admit(problem=row, device=gpu(), bench=bench, on_stage=told.append)
    assert bench.asked == ["gpu"] and found.stages[-1] == told[-1]
    assert (found.stages[-1].name, found.stages[-1].state) == ("baselines", "ok")
    assert "torch.compile 297 µs" in found.stages[-1].detail and "1,129 µs" in found.stages[-1].detail
    row.refresh_from_db()
    assert "torch.compile 297" in str(row.admission)


def test_where_the_judge_fails_the_problem_is_admitted_all_the_same():
    found = problem_admit(problem=make_problem(), device=gpu(), bench=TimingBench(fails=True))
    assert (found.state, found.stages[-1].state) == ("admitted", "warned")


def test_nothing_is_timed_for_what_is_not_admitted_or_only_modelled():
    refused, modelled = TimingBench(state="refused"), TimingBench()
    problem_admit(problem=make_problem(), device=gpu(), bench=refused)
    problem_admit(problem=make_problem("other"), device=make_device(), bench=modelled)
    assert refused.asked == modelled.asked == []


def test_its_stage_has_a_name_and_comes_on_gpus_only():
    row = make_problem()
    problem_admit(problem=row, device=gpu(), bench=TimingBench())
    row.refresh_from_db()
    (line,) = [one for one in stage_lines(preflight(row, gpu(), now=timezone.now())) if "297" in one["detail"]]
    assert line["label"] == "Other baselines are timed"
    for device, wanted in ((gpu(), True), (make_device(), False)):
        admission_queue(problem=row, device=device)
        lines = stage_lines(preflight(row, device, now=timezone.now()))
        assert any(one["label"] == "Other baselines are timed" for one in lines) is wanted
