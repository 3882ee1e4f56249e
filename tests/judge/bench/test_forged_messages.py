"""A problem runs in the child that decides, and can write to its channel: what it writes there is its own verdict."""

from __future__ import annotations

import struct
from types import SimpleNamespace

import pytest

from judge.bench.compiling.plan import CompilePlan
from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.reports import Doing, Finished, GaveUp, Layers, heard
from judge.bench.processes.jobs import AdmissionPlan, EvaluationPlan
from judge.bench.processes.listening import MOST_MESSAGES, MOST_STAGES, Listening
from judge.bench.runner import Bench
from judge.values import Job, Limits, ProblemSpec, StageRecord, UnclearFault, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, judge

STAGE = {"name": "load", "state": "ok", "wall_ms": 1.0}
ODD = [
    {"stage": None},
    {"stage": {}},
    {"stage": {**STAGE, "state": "perhaps"}},
    {"stage": {**STAGE, "state": []}},
    {"stage": {**STAGE, "name": {}}},
    {"stage": {**STAGE, "wall_ms": "soon"}},
    {"stage": {**STAGE, "wall_ms": True}},
    {"stage": {**STAGE, "wall_ms": float("nan")}},
    {"stage": {**STAGE, "wall_ms": 10**400}},
    {"doing": "a\x00b"},
    {"doing": "\ud800"},
    {"doing": ""},
    {"doing": ["audit"]},
    {"inside": {}},
    {"gave_up": 3},
    {"need": {}},
    {"need": {"a": 3}},
    {"need": {"a" * 41: "run"}},
    {"look": ["candidate"]},
    {"verdict": {}, "mac": 3},
    {"verdict": {}},
    {"verdict": {}, "mac": "00", "stays": ["a", 3]},
    {"verdict": {}, "mac": "00", "scarce": 1},
    {"doing": "load", "inside": ""},
    {"sandbox": "all of it"},
    {"sandbox": None},
    {"sandbox": {"seccomp": 1}},
    {"sandbox": {"\ud800": "active"}},
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
            os.write(fd, {raw!r})
    except OSError:
        pass
"""
)


def framed(text: bytes) -> bytes:
    return struct.pack("!I", len(text)) + text


def plans() -> list[AdmissionPlan | EvaluationPlan]:
    bench, problem = Bench("cpu"), ProblemSpec(PROBLEM)
    return [AdmissionPlan(bench, problem, Limits()), EvaluationPlan(bench, Job("x", problem, SAME))]


@pytest.mark.parametrize("message", ODD, ids=str)
def test_a_message_of_another_form_is_none_of_ours(message):
    with pytest.raises(BadClaim):
        heard({**message, "nonce": "n"}, "n")


def test_a_message_belongs_to_its_assignment():
    assert heard({"doing": "load", "nonce": "n"}, "n") == Doing("load")
    assert heard({"stage": STAGE, "nonce": "n"}, "n") == Finished(StageRecord("load", "ok", 1.0))
    for forged in ({"doing": "load"}, {"doing": "load", "nonce": "m"}, {"doing": "load", "nonce": None}):
        with pytest.raises(BadClaim, match=r"assignment|nonce"):
            heard(forged, "n")


def test_stages_are_told_as_they_come_and_bounded_like_all_messages():
    for plan in plans():
        seen: list[StageRecord] = []
        for _ in range(MOST_MESSAGES):
            plan.hear(Finished(StageRecord("load", "ok", 1.0)), seen.append)
        assert seen == plan.stages and len(seen) == MOST_STAGES
        with pytest.raises(BadClaim):
            plan.hear(Doing("load"), seen.append)


def test_sandbox_layers_are_those_reported_before_foreign_code_ran():
    for plan in plans():
        plan.hear(Layers({"seccomp": "unavailable"}), None)
        plan.hear(Layers({"seccomp": "active"}), None)
        assert plan.layers == {"seccomp": "unavailable"}


def test_layers_of_a_referee_that_stayed_are_those_of_its_start():
    """What it says in a later evaluation, foreign code may have said."""
    for told, known in (({"seccomp": "active"}, {"seccomp": "unavailable"}), ({"seccomp": "active"}, {})):
        plan = plans()[1]
        child = SimpleNamespace(layers=dict(known))
        plan.hear(Layers(told), None)
        Listening.settle(plan, SimpleNamespace(members={"referee": child}))
        assert child.layers == known


def test_a_fault_of_the_listener_is_not_taken_for_a_malformed_message():
    def fails(record: StageRecord) -> None:
        raise ValueError(record.name)

    with pytest.raises(ValueError, match="load"):
        plans()[0].hear(Finished(StageRecord("load", "ok", 1.0)), fails)


def nobody() -> SimpleNamespace:
    child = SimpleNamespace(
        killed=False, killed_for_memory=False, out_of_time=False, tail=lambda: "", log=b"", log_dropped=0,
        ending=lambda: "exited with status 1",
    )  # fmt: skip
    return SimpleNamespace(members=dict.fromkeys(("admit", "referee", "candidate", "compiler"), child))


BODIES = [
    {"state": "?"}, {"odd": 1}, [], 3, {"state": "refused", "reason": {}}, {"state": "admitted", "parameters": "many"},
    {"state": "admitted", "flops": 10**400}, {"verdict": "pass", "stage": [], "loads": True},
    {"verdict": "wrong", "stage": "smoke", "reason": ["x"]}, {"verdict": "pass", "stage": "audit", "loads": 1},
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=str)
def test_a_signed_verdict_that_is_none_refuses_the_problem(body):
    """Its key lies in the same process."""
    admission, evaluation = plans()
    report, outcome = admission.admission(body, nobody()), evaluation.outcome(body, nobody())
    assert (report.state, report.reason) == ("refused", "problem.forges")
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.forges")
    compiling = CompilePlan(Bench("cpu"), Job("x", ProblemSpec(PROBLEM), SAME))
    assert compiling.report(body, nobody()).reason == "compile.incomplete"


@pytest.mark.bench
@pytest.mark.parametrize(
    "raw",
    [
        framed(b'{"verdict": {"verdict": "pass"}, "mac": ""}'),
        framed(b'{"gave_up": "others hold the memory"}'),
        framed(b'{"doing": "waiting for the GPU"}'),
        framed(b"[" * 100_000),
        struct.pack("!I", 1 << 31),
        framed(b"\xff\xfe{}"),
    ],
    ids=["verdict", "gave up", "waiting", "deep", "too long", "no text"],
)
def test_what_a_problem_writes_to_the_channel_refuses_it(cpu_bench, raw):
    forged = FORGES.format(raw=raw)
    outcome, report = judge(cpu_bench, SAME, problem=forged), cpu_bench.admit(ProblemSpec(forged))
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.forges"), outcome
    assert (report.state, report.reason) == ("refused", "problem.forges"), report


def test_a_referee_that_gave_up_says_nothing_certain_of_the_problem():
    plan = plans()[1]
    for report in (Doing("problem"), GaveUp("others hold 61% of the memory")):
        assert plan.hear(report, None) is None
    with pytest.raises(UnclearFault, match="others hold 61% of the memory"):
        plan.outcome(None, nobody())
