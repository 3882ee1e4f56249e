"""Entries, stand-in benches and stored self-tests for the tests of the self-test."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import timedelta

from django.utils import timezone

from judge.devices.models import Device
from judge.selftest.entries import Corpus, Entry, Expected
from judge.selftest.models import SelfTest
from judge.selftest.results import EntryResult, Report, State
from judge.values import (
    PROTOCOL,
    AdmissionReport,
    Audit,
    Basis,
    Job,
    Outcome,
    ProblemSpec,
    SpeedCall,
    Speedup,
    Subject,
    Verdict,
)

TOOLCHAIN = "torch 2.13.0 triton 3.7.1 sm_90"


def entry(name: str, corpus: Corpus = Corpus.EXPLOIT, expect: str = "wrong", **fields: object) -> Entry:
    """An entry on every kind of bench whose ending must be the verdict `expect`."""
    made = Entry(
        corpus=corpus,
        id=name,
        title=f"the entry {name}",
        problem=ProblemSpec("class Model: pass"),
        candidate=f"# {name}",
        benches=frozenset({"interpreter", "cpu", "cuda"}),
        expected={"": (Expected(expect),)},
    )
    return dataclasses.replace(made, **fields)


class FakeBench:
    """Answers each candidate with what `answer` says; counts what it was asked."""

    def __init__(self, answer: Callable[[Job], Outcome]) -> None:
        self.answer = answer
        self.jobs: list[Job] = []
        self.closed = False

    def evaluate(self, job: Job) -> Outcome:
        self.jobs.append(job)
        return self.answer(job)

    def admit(self, problem: ProblemSpec, *, limits: object) -> AdmissionReport:
        return AdmissionReport("degenerate", reason="problem.constant")

    def facts(self) -> dict[str, object]:
        return {"toolchain": TOOLCHAIN}

    def close(self) -> None:
        self.closed = True


def wrong(reason: str = "value.mismatch") -> Outcome:
    return Outcome(Verdict.WRONG, stage="correctness", reason=reason)


def passed(call: SpeedCall = SpeedCall.NONE, audit: Audit = Audit.NONE) -> Outcome:
    """A pass; with a call, measured beside an incumbent; audited when that was found twice."""
    rival = Speedup(1.0, 0.99, 1.01, 16, Basis.MEASURED, Subject.INCUMBENT, call) if call else None
    return Outcome(Verdict.PASS, stage="correctness", loads=True, versus_incumbent=rival, audit=audit)


def result(name: str, state: State = State.RIGHT, corpus: Corpus = Corpus.EXPLOIT) -> EntryResult:
    return EntryResult(corpus, name, f"the entry {name}", "interpreter", state, "wrong", "value.mismatch")


def stored(device: Device, *states: State, days: int = 0, toolchain: str = TOOLCHAIN) -> SelfTest:
    """A finished self-test of `device` that ended `days` ago, one entry for each state."""
    rows = tuple(result(f"e{number:02}", state) for number, state in enumerate(states or (State.RIGHT,)))
    report = Report(device.name, PROTOCOL, 0.0, 1.0, rows, {"toolchain": toolchain})
    ended = timezone.now() - timedelta(days=days, minutes=1)
    return SelfTest.objects.create(
        device=device,
        state=SelfTest.State.FINISHED,
        started_at=ended - timedelta(seconds=90),
        finished_at=ended,
        protocol=PROTOCOL,
        toolchain=toolchain,
        red=report.red,
        result=report.to_json(),
    )
