"""A problem that finds the key can sign anything: only what a referee may say is taken, the rest is the problem's."""

from __future__ import annotations

import dataclasses
import json
import math
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from judge.bench.exchange import seal
from judge.bench.exchange.fields import BadClaim
from judge.bench.exchange.verdicts import outcome_of
from judge.bench.processes.jobs import EvaluationPlan
from judge.bench.runner import Bench
from judge.values import Basis, CaseRecord, Job, Outcome, ProblemSpec, Speedup, Subject, Timing, UnclearFault, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, judge
from tests.judge.mutations import deep, mutated

TIMES = (1.0, 2.0, 3.0)
TIMED = Outcome(
    Verdict.PASS,
    "timing",
    loads=True,
    timings=tuple(
        Timing(subject, Basis.MEASURED, "cuda_events", TIMES, 2.0, 1.0, 3.0)
        for subject in (Subject.CANDIDATE, Subject.EAGER)
    ),
    speedup=Speedup(1.5, 1.4, 1.6, 40, Basis.MEASURED),
    versus_incumbent=Speedup(1.5, 1.4, 1.6, 40, Basis.MEASURED),
)


def body(**fields: Any) -> dict[str, Any]:
    return {**json.loads(json.dumps(TIMED.to_json())), **fields}


def read(value: Any, basis: Basis = Basis.MEASURED, **asked: bool) -> Outcome:
    return outcome_of(value, basis=basis, **({"timed": True, "raced": True} | asked))


def with_speedup(**fields: Any) -> dict[str, Any]:
    return body(speedup={**body()["speedup"], **fields})


def with_times(**fields: Any) -> dict[str, Any]:
    return body(timings=[{**row, **fields} for row in body()["timings"]])


def test_what_a_referee_says_is_taken_as_it_is():
    assert read(body()) == TIMED
    wrong = Outcome(Verdict.WRONG, "smoke", "value.mismatch", "it is off")
    assert read(wrong.to_json(), timed=False, raced=False) == wrong


def test_a_text_that_no_encoding_takes_is_signed_as_any_other():
    secret = {"key": "00ff", "nonce": "once"}
    found = seal.signed({"message": "half a pair: \ud800, \u00e9"}, secret)
    assert seal.verified(found["verdict"], found["mac"], **secret)
    assert not seal.verified({"message": "half a pair: \ud801, \u00e9"}, found["mac"], **secret)


@pytest.mark.parametrize("verdict", ["lost", "cancelled", "compiled_only", "best", None])
def test_verdicts_of_the_runner_are_not_the_referees(verdict):
    """Three that are lost would quarantine the device."""
    with pytest.raises(BadClaim):
        read({**Outcome(Verdict.WRONG, "smoke", "judge.failed").to_json(), "verdict": verdict})


@pytest.mark.parametrize(
    "forged",
    [
        with_speedup(n=2**31),
        with_speedup(n=-1),
        with_speedup(n=1.5),
        with_speedup(high=1e12),
        with_speedup(basis="modelled"),
        with_times(subject="candidate"),
        with_times(basis="modelled"),
        with_times(high_us=1e300),
        body(environment={"a": deep(80)}),
        body(environment={"a": [{"b": math.nan}]}),
        body(environment={"a": math.inf}),
        body(environment={"a": 1 << 63}),
        body(findings=[{"code": "a.b", "message": "", "data": {"x": [-math.inf]}}]),
        body(kernels=[{"name": "k", "grid": [10**300]}]),
        with_times(detail={"clock": math.nan}),
        body(findings=[{"code": "a.b", "message": "x" * (8 << 20), "data": {}}]),
        body(reason="A reason\n"),
        [],
        {},
        None,
    ],
    ids=range(20),
)
def test_values_that_no_row_holds_are_no_verdict(forged):
    with pytest.raises(BadClaim):
        read(forged)


def with_case(**fields: Any) -> dict[str, Any]:
    row = {"case": "thin", "weight": 1.0, "state": "timed", "timings": body()["timings"], "speedup": body()["speedup"]}
    return body(weighted=[row | fields])


def test_times_of_weighted_cases_are_read_like_the_others():
    assert read(with_case()).weighted[0].speedup == TIMED.speedup
    for forged in (
        with_case(speedup={**body()["speedup"], "high": 1e12}),
        with_case(speedup={**body()["speedup"], "basis": "modelled"}),
        with_case(versus_incumbent={**body()["speedup"], "n": 0}),
        with_case(timings=[{**row, "basis": "modelled"} for row in body()["timings"]]),
        with_case(timings=[{**row, "high_us": 1e18} for row in body()["timings"]]),
        with_case(case="\x00"),
    ):
        with pytest.raises(BadClaim):
            read(forged)
    alone = {**with_case(), "timings": [], "speedup": None, "versus_incumbent": None}
    with pytest.raises(BadClaim, match="times that nobody asked for"):
        read(alone, timed=False)
    raced = {**with_case(versus_incumbent=body()["speedup"]), "versus_incumbent": None}
    with pytest.raises(BadClaim, match="a race that nobody asked for"):
        read(raced, raced=False)


def test_nobody_says_more_than_was_asked():
    for asked in ({"timed": False}, {"raced": False}):
        with pytest.raises(BadClaim, match="nobody asked"):
            read(body(), **asked)
    with pytest.raises(BadClaim, match="basis"):
        read(body(), Basis.MODELLED)


@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_is_signed_is_a_storable_outcome_or_none(data):
    try:
        found = read(data.draw(mutated(body())))
    except BadClaim:
        return
    assert found.verdict not in (Verdict.LOST, Verdict.CANCELLED, Verdict.COMPILED_ONLY)
    assert len({timing.subject for timing in found.timings}) == len(found.timings)
    for speedup in filter(None, (found.speedup, found.versus_incumbent)):
        assert 0 < speedup.n < 2**31 and math.isfinite(speedup.high)
    json.dumps(found.to_json())


def finished(**fields: Any) -> tuple[EvaluationPlan, dict[str, Any], Any]:
    plan = EvaluationPlan(Bench("cpu"), Job("x", ProblemSpec(PROBLEM), SAME))
    child = SimpleNamespace(log=bytearray(), log_dropped=0, layers=None, ending=lambda: "killed", tail=lambda: "")
    group = SimpleNamespace(members={"candidate": child, "case#1": child, "referee": child})
    return plan, dataclasses.replace(Outcome(Verdict.WRONG, "smoke", "value.mismatch"), **fields).to_json(), group


def test_a_forged_verdict_is_the_problems():
    plan, said, group = finished()
    outcome = plan.outcome({**said, "verdict": "lost"}, group)
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.forges")


def test_numbers_that_no_database_takes_are_the_problems_forgery_and_reach_nobody():
    plan, said, group = finished()
    outcome = plan.outcome({**said, "environment": {"gpu": math.nan}}, group)
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.forges")


def test_what_honest_code_could_not_count_leaves_as_null():
    case = CaseRecord("gpu", "given", True, error=math.inf, allowed=math.nan)
    honest = Outcome(Verdict.WRONG, "smoke", "x.y", cases=(case,), environment={"a": {"b": (1.5, math.nan)}})
    sent = seal.signed(honest.to_json(), {"key": "00", "nonce": "n"})
    json.dumps(sent, allow_nan=False)
    assert read(sent["verdict"]).cases[0].error is None and sent["verdict"]["environment"] == {"a": {"b": [1.5, None]}}
    assert seal.signed({"cases": [math.nan]}, {"key": "00", "nonce": "n"})["verdict"] == {"cases": [None]}
    assert not seal.verified({"a": math.nan}, sent["mac"], key="00", nonce="n")


def test_a_child_that_is_said_to_have_ended_and_lives_is_no_fault_of_the_device():
    plan, said, group = finished(verdict=Verdict.CRASHED, reason="load.died", environment={"failed_child": "case#1"})
    with pytest.raises(UnclearFault, match="lives"):
        plan.outcome(said, group)


SIGNS_LOST = PROBLEM.replace(
    "def get_inputs():",
    """def sign():
    import gc, hashlib, hmac, json
    for one in gc.get_objects():
        if type(one).__name__ == "Assignment" and "key" in one.payload:
            body = {"verdict": "lost", "stage": "judge", "reason": "judge.failed"}
            text = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
            key, nonce = bytes.fromhex(one.payload["key"]), one.payload["nonce"]
            mac = hmac.new(key, nonce.encode() + b"\\\\0" + text, hashlib.sha256).hexdigest()
            one.boss.send({"verdict": body, "mac": mac, "stays": [], "scarce": True})

def get_inputs():
    sign()""",
)


@pytest.mark.bench
def test_a_problem_that_signs_a_loss_is_blamed(cpu_bench):
    outcome = judge(cpu_bench, SAME, problem=SIGNS_LOST.replace("\\\\0", "\\0"))
    assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.forges"), outcome
    assert judge(cpu_bench, SAME).verdict is Verdict.PASS
