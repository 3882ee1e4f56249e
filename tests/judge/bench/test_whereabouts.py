"""A problem that hangs, takes too much memory or dies is told where: import, factories, constructor or forward."""

from __future__ import annotations

import os
import signal
from types import SimpleNamespace
from typing import Any

import pytest

from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.reports import Doing, Finished, Inside
from judge.bench.foreign.whereabouts import CASES, FORWARD, IMPORT, INIT_INPUTS, INPUTS, MODEL, PLACES, Whereabouts
from judge.bench.processes.children import Child
from judge.bench.processes.jobs import AdmissionPlan, EvaluationPlan
from judge.bench.processes.killed import Cause
from judge.bench.runner import Bench
from judge.values import Job, JudgeError, Limits, ProblemSpec, StageRecord, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, judge

LOOP = "while True: pass"
KILL = "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
EXIT = "import os; os._exit(3)"
LISTS = "keep = [bytearray(1 << 40)]"
TOO_BIG = "problem.too_big_for_interpreter"
TENSOR = "import torch; torch.empty(1 << 45)"
BEFORE = {
    IMPORT: "SIZE = 64",
    INIT_INPUTS: "    return [SIZE]",
    MODEL: "        super().__init__()",
    INPUTS: "    return [torch.randn(16, SIZE)]",
    FORWARD: "        return torch.nn",
}


def broken(place: str, act: str) -> str:
    """PROBLEM with `act` as the first thing that happens in `place`."""
    line = BEFORE[place]
    indent = " " * (len(line) - len(line.lstrip()))
    assert PROBLEM.count(line) == 1
    return PROBLEM.replace(line, f"{indent}{act}\n{line}")


def with_cases(act: str) -> str:
    return PROBLEM + f"\ndef get_cases():\n    {act}\n    return {{}}\n"


@pytest.mark.bench
@pytest.mark.parametrize("place", [IMPORT, FORWARD])  # a death is named everywhere, from the same notes
@pytest.mark.quiet
def test_a_loop_is_named_by_the_preflight_and_by_an_evaluation(
    cpu_bench: Bench, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(EvaluationPlan, "grace_s", 0.0)
    report = cpu_bench.admit(ProblemSpec(broken(place, LOOP)), limits=Limits(wall_s=2))
    assert (report.state, report.reason) == ("refused", "problem.timeout")
    assert report.message.startswith(f"{place} did not return within ") and "endless loop" in report.message
    assert report.stages[-1].detail in report.message
    outcome = judge(cpu_bench, SAME, problem=broken(place, LOOP), wall_s=2)
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.timeout")
    assert f"the reference: {place} did not return within " in outcome.message


@pytest.mark.bench
@pytest.mark.parametrize("act", [LISTS, TENSOR])
@pytest.mark.parametrize("place", list(BEFORE))
def test_a_lack_of_memory_is_named_by_the_preflight_and_by_an_evaluation(
    cpu_bench: Bench, place: str, act: str
) -> None:
    report = cpu_bench.admit(ProblemSpec(broken(place, act)))
    by_shapes = (place, act) == (FORWARD, TENSOR)  # then nothing needs to be allocated to know
    assert (report.state, report.reason) == ("refused", TOO_BIG if by_shapes else "problem.memory")
    words = {IMPORT: ("the import ", "Importing the module "), MODEL: ("Model(...) ", "Model(*get_init_inputs()) ")}
    told = report.message.startswith(words.get(place, f"{place} ")) and "needs more memory than" in report.message
    assert told or by_shapes
    outcome = judge(cpu_bench, SAME, problem=broken(place, act))
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.memory")
    assert place in outcome.message


@pytest.mark.bench
@pytest.mark.parametrize("place", list(BEFORE))
def test_a_death_is_named_by_the_preflight_and_by_an_evaluation(cpu_bench: Bench, place: str) -> None:
    said = f"{place} ended the process: exited with status 3"
    report = cpu_bench.admit(ProblemSpec(broken(place, EXIT)))
    assert (report.reason, report.message.partition(";")[0]) == ("problem.raises", said)
    outcome = judge(cpu_bench, SAME, problem=broken(place, EXIT))
    assert outcome.verdict is Verdict.REFUSED_PROBLEM and said in outcome.message


@pytest.mark.bench
def test_a_problem_that_kills_itself_has_not_run_out_of_memory(cpu_bench: Bench) -> None:
    report = cpu_bench.admit(ProblemSpec(broken(MODEL, KILL)))
    assert (report.state, report.reason) == ("refused", "problem.raises") and "killed by SIGKILL" in report.message


@pytest.mark.bench
def test_the_stage_that_failed_is_the_one_that_was_running(cpu_bench: Bench) -> None:
    on_values = broken(FORWARD, "import os; x.abs().max() > 0 and os._exit(3)")  # not by shapes alone
    running = {"import": broken(IMPORT, EXIT), "shapes": broken(INPUTS, EXIT), "reference": on_values}
    for name, source in running.items():
        last = cpu_bench.admit(ProblemSpec(source)).stages[-1]
        assert (last.name, last.state) == (name, "failed")


@pytest.mark.bench
def test_get_cases_is_a_place_too(cpu_bench: Bench) -> None:
    report = cpu_bench.admit(ProblemSpec(with_cases(EXIT)))
    assert report.message.startswith("get_cases() ended the process")


@pytest.mark.bench
def test_a_reference_that_ends_its_process_in_a_later_round_is_the_problems_fault(cpu_bench: Bench) -> None:
    late = broken(FORWARD, "import os; x.abs().max() > 40 and os._exit(3)")
    outcome = judge(cpu_bench, SAME, problem=late)
    assert (outcome.verdict, outcome.stage) == (Verdict.REFUSED_PROBLEM, "correctness")
    assert "Model.forward ended the process" in outcome.message and outcome.loads is False


@pytest.mark.bench
@pytest.mark.parametrize(
    ("line", "place"),
    [
        ("import torch\n", "the import"),
        ("        super().__init__()\n", "ModelNew(...)"),
        ("        return torch", "ModelNew.forward"),
    ],
)
def test_a_candidate_too_is_told_where_it_ended(cpu_bench: Bench, line: str, place: str) -> None:
    indent = " " * (len(line) - len(line.lstrip(" ")))
    outcome = judge(cpu_bench, SAME.replace(line, f"{indent}{EXIT}\n{line}", 1))
    assert outcome.verdict is Verdict.CRASHED
    assert outcome.message == f"{place} ended the candidate's process: exited with status 3"


# -- without processes ----------------------------------------------------------------------------------------------


def ended(status: int = 0, *, killed: bool = False, log: bytes = b"") -> Any:
    child = Child.__new__(Child)
    child.status, child.killed, child.log, child.layers = status, killed, bytearray(log), None
    child.cause = Cause.MEMORY if status == signal.SIGKILL else Cause.NONE
    return SimpleNamespace(members={"admit": child, "referee": child, "candidate": child}, ended=lambda name: child)


def plans() -> list[AdmissionPlan | EvaluationPlan]:
    bench, problem = Bench("cpu"), ProblemSpec(PROBLEM)
    return [AdmissionPlan(bench, problem, Limits()), EvaluationPlan(bench, Job("x", problem, SAME))]


@pytest.mark.parametrize("place", PLACES)
def test_the_place_entered_last_is_the_one_named(place: str) -> None:
    for plan in plans():
        for message in (Doing("problem"), Inside(IMPORT), Inside(""), Inside(place)):
            plan.hear(message, None)
        group = ended(signal.SIGSEGV)
        said = plan.admission(None, group) if isinstance(plan, AdmissionPlan) else plan._without_verdict(group)
        assert f"{place} ended the process: killed by SIGSEGV" in said.message


def test_between_the_places_the_last_stage_is_named() -> None:
    plan = plans()[0]
    assert isinstance(plan, AdmissionPlan)
    for message in (Doing("graph"), Inside(FORWARD), Inside("")):
        plan.hear(message, None)
    plan.hear(Finished(StageRecord("graph", "ok", 1.0)), None)
    report = plan.admission(None, ended(killed=True))
    assert report.message.startswith("no result within 60 s; the last finished stage is 'graph'")
    assert report.stages[-1].name == "run"


def test_a_place_that_is_none_was_not_said_by_us() -> None:
    for plan in plans():
        with pytest.raises(BadClaim):
            plan.hear(Inside("elsewhere"), None)
        assert plan.inside == ""


def test_a_referee_that_dies_in_our_own_code_or_of_memory_beside_a_candidate_blames_nobody() -> None:
    for place, status in (("", signal.SIGSEGV), ("", 1 << 8), (FORWARD, signal.SIGKILL)):
        plan = plans()[1]
        assert isinstance(plan, EvaluationPlan)
        plan.hear(Doing("correctness"), None)
        plan.hear(Inside(place), None)
        with pytest.raises(JudgeError, match="no verdict in stage correctness"):
            plan._without_verdict(ended(int(status)))


def test_leaving_is_told_whatever_happens_inside() -> None:
    told: list[Any] = []
    whereabouts = Whereabouts(told.append)
    with pytest.raises(KeyError), whereabouts.inside(MODEL):
        raise KeyError
    assert whereabouts.declared(INPUTS, lambda a, *, b: a + b)(1, b=2) == 3
    whereabouts.doing("graph")
    assert told == [{"inside": MODEL}, {"inside": ""}, {"inside": INPUTS}, {"inside": ""}, {"doing": "graph"}]


def test_others_pass_before_a_place_is_entered_and_never_within_one() -> None:
    told: list[Any] = []
    whereabouts = Whereabouts(told.append, lambda: told.append("at rest"))
    whereabouts.let_pass = lambda: told.append("pass")
    with whereabouts.inside(MODEL):
        whereabouts.declared(INPUTS, lambda: None)()
    assert told[:3] == ["at rest", "pass", {"inside": MODEL}]
    assert told.count("pass") == 1
    with whereabouts.inside(MODEL):
        pass
    assert told.count("pass") == 2


def test_every_place_can_be_broken_here() -> None:
    assert {*BEFORE, CASES} == set(PLACES)
    assert os.WIFSIGNALED(signal.SIGSEGV)
