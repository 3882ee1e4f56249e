"""A referee stays at its problem: the next candidate finds reference and baseline ready, nothing of the last."""

from __future__ import annotations

import os
import signal
import socket
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch

from judge.bench.deciding.referee_cache import RefereeCache
from judge.bench.exchange.contact import Contact, Deadline
from judge.bench.exchange.nested import TensorMeta
from judge.bench.exchange.wire import Channel
from judge.bench.foreign.loading import load_problem
from judge.bench.judging.asking import Questions
from judge.bench.judging.parameters import Binding
from judge.bench.judging.reference import Reference
from judge.bench.judging.subjects import Subjects
from judge.bench.processes.child_group import ChildGroup
from judge.bench.processes.children import Child, Server
from judge.bench.processes.jobs import AdmissionPlan
from judge.bench.runner import Bench
from judge.values import AdmissionReport, Job, Limits, Outcome, ProblemSpec, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, candidate

pytestmark = pytest.mark.bench

LIMITS = Limits(wall_s=300, stage_s=120)
OTHER = PROBLEM + "\n# another problem\n"


@pytest.fixture
def bench(cpu_bench):
    return cpu_bench


@pytest.fixture(autouse=True)
def _nobody_has_stayed(bench):
    bench.rest()


def judged(
    bench: Bench, source: str, problem: str = PROBLEM, *, timing: bool = True, limits: Limits = LIMITS
) -> Outcome:
    job = Job("desk", ProblemSpec(problem), source, limits=limits, timing=timing, beat=float("inf"))
    return bench.evaluate(job)


def waiting(bench: Bench) -> list[dict[str, int]]:
    """Process ids by name, for each problem somebody has stayed at."""
    return [{name: child.pid for name, child in members.items()} for members in bench.kept_referees._kept.values()]


def test_referee_and_baseline_stay_and_the_candidate_does_not(bench):
    first = judged(bench, SAME)
    (stayed,) = waiting(bench)
    second = judged(bench, SAME)
    assert (first.verdict, second.verdict) == (Verdict.PASS, Verdict.PASS)
    assert set(stayed) == {"referee", "eager"} and waiting(bench) == [stayed]
    assert second.environment["children"]["referee"] == first.environment["children"]["referee"] != {}
    assert second.speedup is not None and second.speedup.n >= 16


def test_a_wrong_candidate_between_two_right_ones_changes_nothing(bench):
    wrong = candidate("return self.right(x) * 1.01")
    verdicts = [judged(bench, source).verdict for source in (SAME, wrong, SAME, wrong)]
    assert verdicts == [Verdict.PASS, Verdict.WRONG, Verdict.PASS, Verdict.WRONG]
    assert len(waiting(bench)) == 1


def test_a_baseline_that_was_never_warm_leaves_without_its_referee(bench):
    """The referee hangs up on it; whether it has ended by then is a matter of luck."""
    wrong = candidate("return self.right(x) * 1.01")
    assert judged(bench, wrong).verdict is Verdict.WRONG
    (first,) = waiting(bench)
    assert set(first) == {"referee"}
    assert judged(bench, SAME).verdict is Verdict.PASS
    (second,) = waiting(bench)
    assert second["referee"] == first["referee"] and set(second) == {"referee", "eager"}


def test_each_evaluation_asks_other_questions(bench):
    """A candidate that prints what it is asked never sees the same numbers again."""
    source = candidate("print('SUM', float(x.double().sum())); return self.right(x)")
    seen = [judged(bench, source, timing=False).log for _ in range(2)]
    sums = [{line for line in log.splitlines() if line.startswith("SUM")} for log in seen]
    assert all(len(one) >= 5 for one in sums) and not sums[0] & sums[1]


def test_one_that_died_in_between_is_replaced(bench):
    judged(bench, SAME)
    (stayed,) = waiting(bench)
    os.kill(stayed["referee"], signal.SIGKILL)
    assert judged(bench, SAME).verdict is Verdict.PASS
    (other,) = waiting(bench)
    assert other["referee"] != stayed["referee"]


def test_one_that_dies_at_work_is_replaced_and_the_candidate_not_blamed(bench):
    """The kill meets a referee that has stayed, in the middle of an evaluation."""
    judged(bench, SAME)
    (stayed,) = waiting(bench)
    killed: list[int] = []

    def once(stage: object) -> None:
        if not killed and getattr(stage, "name", "") == "load":
            killed.append(stayed["referee"])
            os.kill(stayed["referee"], signal.SIGKILL)

    outcome = bench.evaluate(Job("desk", ProblemSpec(PROBLEM), SAME, limits=LIMITS, beat=float("inf")), progress=once)
    assert killed and outcome.verdict is Verdict.PASS
    assert waiting(bench)[0]["referee"] != stayed["referee"]


def test_problems_and_limits_have_referees_of_their_own(bench):
    judged(bench, SAME)
    judged(bench, SAME, OTHER)
    judged(bench, SAME, limits=replace(LIMITS, stage_s=119))
    assert len({row["referee"] for row in waiting(bench)}) == 3


def test_the_one_used_longest_ago_goes_first(bench):
    bench.kept_referees.most = 2
    try:
        for number in range(3):
            judged(bench, SAME, f"{PROBLEM}\n# problem {number}\n", timing=False)
        kept = {source[-2] for source, *_ in bench.kept_referees._kept}
    finally:
        bench.kept_referees.most = 4
    assert kept == {"1", "2"}


def test_an_audit_ends_the_stay(bench):
    """Its referee has seen sealed cases and other processes' answers."""
    outcome = bench.evaluate(Job("desk", ProblemSpec(PROBLEM), SAME, limits=LIMITS, timing=False))
    assert outcome.stage == "audit" or any(stage.name == "audit" for stage in outcome.stages)
    assert waiting(bench) == []


def test_after_a_rest_nobody_lives(bench):
    judged(bench, SAME)
    (stayed,) = waiting(bench)
    bench.rest()
    assert waiting(bench) == [] and not any(os.path.exists(f"/proc/{pid}") for pid in stayed.values())  # noqa: PTH110
    assert judged(bench, SAME).verdict is Verdict.PASS


def test_a_preflight_is_short_of_memory_only_once_nobody_waits(bench, monkeypatch):
    """On a GPU those who stayed at other problems hold memory."""
    judged(bench, SAME)
    real, seen = AdmissionPlan.admission, []

    def short(plan, body, group):
        seen.append(len(bench.kept_referees))
        if bench.kept_referees.members():
            return AdmissionReport("refused", reason="problem.memory", message="too little memory")
        return real(plan, body, group)

    monkeypatch.setattr(AdmissionPlan, "admission", short)
    monkeypatch.setattr(bench, "spares", 1)  # as on a GPU
    assert bench.admit(ProblemSpec(OTHER)).state == "admitted" and seen == [1, 0]


def test_closing_closes_the_channels_of_those_who_were_just_sent_home(tmp_path):
    """Their zygote has told of their end, so it does not know them any more."""
    boss, theirs = Channel.pair()
    log_fd, log_write = os.pipe()
    bench, group = Bench("cpu"), ChildGroup(LIMITS)
    group.members["candidate"] = child = Child(1, cast(Server, None), tmp_path, boss, log_fd, status=0)
    bench.conductor.leaving = [group]
    bench.close()
    assert boss.fileno() == -1 and child.log_fd == -1
    for end in (theirs, os.fdopen(log_write, "wb")):
        end.close()


def test_a_rest_survives_a_zygote_that_was_lost(bench, monkeypatch):
    """Its spares, as a GPU's bench has them, died with it; the next evaluation starts another."""
    monkeypatch.setattr(bench, "spares", 1)
    bench.stock(LIMITS)
    lost = bench.server("plain")
    assert len(lost.waiting()) == 1 and lost.process is not None
    lost.process.kill()
    lost.process.wait()
    bench.rest()
    assert lost.waiting() == []
    monkeypatch.setattr(bench, "spares", 0)
    assert judged(bench, SAME, timing=False).verdict is Verdict.PASS


@pytest.mark.parametrize(("lent", "stays"), [(1, True), (2, False)])
def test_a_baseline_that_was_lent_more_memory_goes(monkeypatch, lent, stays):
    """It may still see what it had first, and that is lent to the next candidate."""
    ours, theirs = socket.socketpair()
    baseline = Contact("eager", ours.detach(), Deadline(9, 9), "cpu")
    monkeypatch.setattr(baseline, "tell", lambda *args, **fields: None)
    monkeypatch.setattr(baseline, "answer", lambda kind: kind())
    for number in range(lent):
        baseline.make_arena([TensorMeta.of(torch.zeros(1 << 16))] * number, [])
    baseline.make_arena([], [])  # which fits what it has
    baseline.warm = True
    assignment: Any = SimpleNamespace(device="cpu", boss=Channel(theirs), payload={"subjects": []}, links=[])
    cache = RefereeCache(assignment)
    cache.tidy(Subjects(assignment, Deadline(9, 9), cache.arenas, {"eager": (baseline, Binding((), hook=False))}))
    assert ("eager" in cache.kept) is stays and (baseline.link.fileno() != -1) is stays
    for end in (baseline.link, theirs):
        end.close()


@pytest.mark.parametrize(("refusal", "stays"), [("out of memory", False), ("expected Float but found Double", True)])
def test_what_a_reference_refused_is_not_held_against_the_next_candidate(tmp_path, refusal, stays):
    """Memory may have been held by the candidate, and content may have been one question's: fp64 is the oracle."""
    boss, theirs = Channel.pair()
    assignment: Any = SimpleNamespace(device="cpu", boss=boss, payload={"subjects": []}, links=[])
    cache = RefereeCache(assignment)
    cache.reference = reference = Reference(load_problem(PROBLEM, None, tmp_path), "cpu")
    first = Questions(reference).first(None)
    real = reference._copy_in

    def refuses(dtype):
        raise RuntimeError(refusal)

    reference._copy_in = refuses
    assert first.expected.fp64 and not Questions(reference).first(None).expected.fp64
    reference._copy_in = real
    assert cache.tidy(Subjects(assignment, Deadline(9, 9), cache.arenas, {})) is stays
    if stays:
        assert Questions(reference).first(None).expected.fp64
    for end in (boss, theirs):
        end.close()
