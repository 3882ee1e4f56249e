"""A problem runs in the child that decides, and can write to its channel: the runner survives whatever comes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from judge.bench.processes.jobs import AdmissionPlan, EvaluationPlan
from judge.bench.processes.listening import Listening
from judge.bench.runner import Bench
from judge.values import Job, Limits, ProblemSpec, StageRecord, UnclearFault, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, judge

STAGE = {"name": "load", "state": "ok", "wall_ms": 1.0}
ODD = [
    {"stage": None},
    {"stage": {}},
    {"stage": {**STAGE, "more": 1}},
    {"stage": {**STAGE, "state": "perhaps"}},
    {"stage": {**STAGE, "state": []}},
    {"stage": {**STAGE, "name": {}}},
    {"stage": {**STAGE, "wall_ms": "soon"}},
    {"stage": {**STAGE, "wall_ms": float("nan")}},
    {"stage": {**STAGE, "wall_ms": 10**400}},
    {"sandbox": "all of it"},
    {"sandbox": None},
    {"nothing": "known"},
]

# Writes to every socket it finds in its own process, as the referee's or the preflight's channel would.
FORGES = (
    PROBLEM
    + """
import json, os, stat, struct

for fd in range(3, 64):
    try:
        if stat.S_ISSOCK(os.fstat(fd).st_mode):
            body = json.dumps({message!r}).encode()
            os.write(fd, struct.pack("!I", len(body)) + body)
    except OSError:
        pass
"""
)


def plans() -> list[AdmissionPlan | EvaluationPlan]:
    bench, problem = Bench("cpu"), ProblemSpec(PROBLEM)
    return [AdmissionPlan(bench, problem, Limits()), EvaluationPlan(bench, Job("x", problem, SAME))]


@pytest.mark.parametrize("message", ODD, ids=str)
def test_a_malformed_message_is_left_out(message):
    for plan in plans():
        seen: list[StageRecord] = []
        assert plan.hear(message, seen.append) is None
        assert (seen, plan.stages, plan.layers) == ([], [], {})
        plan.hear({"stage": STAGE}, seen.append)
        assert len(seen) == 1


def test_sandbox_layers_are_those_reported_before_foreign_code_ran():
    for plan in plans():
        plan.hear({"sandbox": {"seccomp": "unavailable"}}, None)
        plan.hear({"sandbox": {"seccomp": "active"}}, None)
        assert plan.layers == {"seccomp": "unavailable"}


def test_layers_of_a_referee_that_stayed_are_those_of_its_start():
    """What it says in a later evaluation, foreign code may have said."""
    for told, known in (({"seccomp": "active"}, {"seccomp": "unavailable"}), ({"seccomp": "active"}, {})):
        plan = plans()[1]
        child = SimpleNamespace(layers=dict(known))
        plan.hear({"sandbox": told}, None)
        Listening.settle(plan, SimpleNamespace(members={"referee": child}))
        assert child.layers == known


def test_a_fault_of_the_listener_is_not_taken_for_a_malformed_message():
    def fails(record: StageRecord) -> None:
        raise ValueError(record.name)

    with pytest.raises(ValueError, match="load"):
        plans()[0].hear({"stage": STAGE}, fails)


@pytest.mark.parametrize("body", [{"state": "?"}, {"odd": 1}, [], 3])
def test_a_signed_report_that_is_none_refuses_the_problem(body):
    plan = AdmissionPlan(Bench("cpu"), ProblemSpec(PROBLEM), Limits())
    report = plan.admission(body, None)
    assert (report.state, report.reason) == ("refused", "problem.raises")


@pytest.mark.bench
@pytest.mark.parametrize("mac", ["", "ü"])
def test_a_forged_verdict_is_the_problems_fault(cpu_bench, mac):
    forged = FORGES.format(message={"verdict": {"verdict": "pass"}, "mac": mac})
    outcome = judge(cpu_bench, SAME, problem=forged)
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.forges")
    report = cpu_bench.admit(ProblemSpec(forged))
    assert (report.state, report.reason) == ("refused", "problem.forges")


@pytest.mark.bench
def test_odd_messages_of_a_problem_leave_the_bench_at_work(cpu_bench):
    forged = FORGES.format(message={"stage": {"name": 1}})
    assert cpu_bench.admit(ProblemSpec(forged)).state in ("admitted", "refused")
    assert judge(cpu_bench, SAME, problem=forged).verdict in (Verdict.PASS, Verdict.DISHONEST, Verdict.CRASHED)


def test_a_referee_that_gave_up_says_nothing_certain_of_the_problem():
    plan = plans()[1]
    child = SimpleNamespace(
        killed=False, killed_for_memory=False, tail=lambda: "", ending=lambda: "exited with status 1"
    )
    for message in ({"doing": "problem"}, {"gave_up": "others hold 61% of the memory"}):
        assert plan.hear(message, None) is None
    with pytest.raises(UnclearFault, match="others hold 61% of the memory"):
        plan.outcome(
            None, SimpleNamespace(members={"referee": child, "candidate": SimpleNamespace(log=b"", log_dropped=0)})
        )
