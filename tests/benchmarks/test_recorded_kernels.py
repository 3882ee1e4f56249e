"""Published kernels and ours beside each other: which are chosen, what agrees, how a run goes on, what is explained."""

from __future__ import annotations

import os
import signal
import time
from collections import Counter
from dataclasses import replace

import pytest

from judge.values import CaseRecord, JudgeError, Outcome, ProblemSpec, Verdict
from tests.benchmarks.recorded.entries import Entry, Published, distinct, published_as, sample
from tests.benchmarks.recorded.report import conclusion, explanations, report, table
from tests.benchmarks.recorded.rows import Relation, Row, key_of, read_rows, relation, row_of
from tests.benchmarks.recorded.run import Plan, judge_all

SPECS = {name: ProblemSpec(f"problem {name}") for name in ("one", "two")}
COMPILED = Outcome(Verdict.COMPILED_ONLY, stage="compile", reason="compile.only", loads=True)
TOOLS = {"toolchain": "torch 9"}


def entry(step: int, published: Published = Published.FASTER, problem: str = "one", code: str = "") -> Entry:
    return Entry(problem, step, SPECS[problem], code or f"value = {step}", published)


def corpus() -> list[Entry]:
    """Ninety faster ones, and rare outcomes in both problems."""
    many = [entry(step) for step in range(1, 81)] + [entry(step, problem="two") for step in range(1, 11)]
    rare = [Published.WRONG, Published.WRONG, Published.CRASHED, Published.CORRECT]
    return many + [entry(100 + n, rare[n % 4], ("one", "two")[n // 4]) for n in range(8)]


class FakeBench:
    """Answers from a table by the number in the candidate's text; an exception there is raised."""

    def __init__(self, answers: dict[int, object] | None = None, asked: list[int] | None = None) -> None:
        self.answers = answers or {}
        self.asked = asked if asked is not None else []
        self.closed = False

    def facts(self) -> dict[str, object]:
        return dict(TOOLS)

    def evaluate(self, job):
        step = int(job.candidate.split()[-1])
        self.asked.append(step)
        found = self.answers.get(step, COMPILED)
        if callable(found):
            return found()
        if isinstance(found, Exception):
            raise found
        return found

    def close(self) -> None:
        self.closed = True


def row(step: int, published: Published, verdict: Verdict, **fields) -> Row:
    outcome = Outcome(verdict, stage="compile", reason="" if verdict is Verdict.PASS else "x.y", loads=True)
    return replace(row_of(entry(step, published), outcome, device="d", toolchain="t", wall_s=1.0), **fields)


def test_equal_code_is_one_kernel_and_what_was_said_later_is_kept():
    first, same = entry(1, Published.FASTER, code="x = 1"), entry(7, Published.WRONG, code="# again\n\nx = 1")
    other = entry(7, problem="two", code="x = 1")
    found = distinct([first, same, other])
    assert [one.id for one in found] == ["one#1", "two#7"]
    assert found[0].published is Published.FASTER and found[0].again == (Published.WRONG,)


def test_a_speedup_above_one_makes_the_difference_among_correct_ones():
    assert published_as(Verdict.PASS, 1.01) is Published.FASTER
    assert published_as(Verdict.PASS, 1.0) is published_as(Verdict.PASS, None) is Published.CORRECT
    assert published_as(Verdict.COMPILE_FAILED, None) is Published.COMPILE_ERROR


def test_a_sample_holds_every_problem_and_outcome_and_then_their_shares():
    found = sample(corpus(), 30, seed=1)
    strata = {(one.problem, one.published) for one in corpus()}
    assert {(one.problem, one.published) for one in found} == strata
    assert {(one.problem, one.published) for one in found[: len(strata)]} == strata  # the beginning alone does it
    counts = Counter((one.problem, one.published) for one in found)
    assert counts["one", Published.FASTER] > counts["two", Published.FASTER]
    assert len({one.id for one in found}) == 30


def test_the_same_seed_draws_the_same_kernels_whatever_their_order():
    ids = [one.id for one in sample(corpus(), 20, seed=1)]
    assert [one.id for one in sample(corpus()[::-1], 20, seed=1)] == ids
    assert [one.id for one in sample(corpus(), 20, seed=2)] != ids
    assert len(sample(corpus(), 1000, seed=1)) == len(corpus())


@pytest.mark.parametrize(
    ("published", "verdict", "expected"),
    [
        (Published.FASTER, Verdict.PASS, Relation.AGREES),
        (Published.CORRECT, Verdict.LOWER_PRECISION, Relation.DIFFERS),
        (Published.FASTER, Verdict.COMPILED_ONLY, Relation.AGREES),
        (Published.FASTER, Verdict.UNSUPPORTED, Relation.UNDECIDED),
        (Published.WRONG, Verdict.NOT_FINITE, Relation.AGREES),
        (Published.WRONG, Verdict.PASS, Relation.DIFFERS),
        (Published.WRONG, Verdict.COMPILE_FAILED, Relation.DIFFERS),  # it ran there
        (Published.COMPILE_ERROR, Verdict.COMPILED_ONLY, Relation.DIFFERS),
        (Published.NOT_LOADED, Verdict.COMPILED_ONLY, Relation.DIFFERS),
        (Published.COMPILE_ERROR, Verdict.LOAD_FAILED, Relation.AGREES),
        (Published.CRASHED, Verdict.COMPILED_ONLY, Relation.UNDECIDED),  # nothing ran here
        (Published.CRASHED, Verdict.WRONG, Relation.DIFFERS),
        (Published.TIMED_OUT, Verdict.LOST, Relation.LOST),
    ],
)
def test_what_agrees_depends_on_how_far_both_came(published, verdict, expected):
    assert relation(published, verdict) is expected


def test_a_row_survives_its_line_and_a_foreign_line_is_named(tmp_path):
    outcome = Outcome(
        Verdict.WRONG,
        stage="correctness",
        reason="value.mismatch",
        loads=True,
        cases=(CaseRecord("c", "given", True), CaseRecord("c", "centred", False, 0.2, 1e-5, "far")),
    )
    found = row_of(entry(3), outcome, device="cuda:0", toolchain="torch 9", wall_s=2.5)
    assert found.round == {"family": "centred", "error": 0.2, "allowed": 1e-5, "detail": "far"}
    assert found.key == key_of(entry(3), "cuda:0", "torch 9")
    path = tmp_path / "rows.jsonl"
    path.write_bytes(found.to_line() + b"\n" + b'{"id": 1}\n')
    rows = read_rows(path)
    assert next(rows) == found
    with pytest.raises(ValueError, match="line 2: not a row of judge_recorded"):
        next(rows)


def test_rows_come_as_they_are_made_and_known_ones_are_passed_over():
    todo = [entry(step) for step in (1, 2, 3)]
    bench, told = FakeBench(), []
    known = {key_of(todo[1], "d", "torch 9")}
    tally = judge_all(todo, lambda: bench, Plan("d"), known=known, told=told.append)
    assert bench.asked == [1, 3] and bench.closed
    assert [one.id for one in told] == ["one#1", "one#3"] == [one.id for one in tally.rows]
    assert (tally.known, tally.left) == (1, 0)


def test_workers_share_the_kernels_each_with_its_own_bench():
    benches: list[FakeBench] = []
    asked: list[int] = []

    def opened() -> FakeBench:
        benches.append(FakeBench(asked=asked))
        return benches[-1]

    tally = judge_all([entry(step) for step in range(9)], opened, Plan("d", workers=3))
    assert sorted(asked) == list(range(9)) and len(tally.rows) == 9
    assert len(benches) == 3 and all(bench.closed for bench in benches)


def test_a_fault_of_the_judge_is_tried_three_times_and_then_stands_as_lost():
    bench = FakeBench({1: JudgeError("no child")})
    tally = judge_all([entry(1), entry(2)], lambda: bench, Plan("d"))
    assert bench.asked == [1, 1, 1, 2]
    assert [one.relation for one in tally.rows] == [Relation.LOST, Relation.AGREES]
    assert tally.rows[0].message == "no child"


def test_ctrl_c_finishes_what_is_under_way_and_tells_what_is_left():
    before = signal.getsignal(signal.SIGINT)

    def interrupted() -> Outcome:
        os.kill(os.getpid(), signal.SIGINT)
        while signal.getsignal(signal.SIGINT) is not before:  # until the main thread has taken it
            time.sleep(0.005)
        return COMPILED

    told: list[Row] = []
    tally = judge_all(
        [entry(step) for step in (1, 2, 3, 4)], lambda: FakeBench({2: interrupted}), Plan("d"), told=told.append
    )
    assert (len(told), tally.left) == (2, 2)
    assert signal.getsignal(signal.SIGINT) is before


def test_no_kernel_begins_after_the_budget():
    def slow() -> Outcome:
        time.sleep(0.06)
        return COMPILED

    answers = dict.fromkeys(range(20), slow)
    tally = judge_all([entry(step) for step in range(20)], lambda: FakeBench(answers), Plan("d", budget_s=0.1))
    assert 1 <= len(tally.rows) <= 3 and tally.left == 20 - len(tally.rows)


def test_a_bench_that_does_not_start_is_an_error_after_all_threads_have_ended():
    def opened() -> FakeBench:
        raise JudgeError("no landlock")

    with pytest.raises(JudgeError, match="no landlock"):
        judge_all([entry(1), entry(2)], opened, Plan("d", workers=2))


def test_the_report_counts_and_explains_with_the_evidence_of_the_rows():
    wrong = {"family": "centred", "error": 2e-3, "allowed": 1e-6, "detail": ""}
    rows = [
        row(1, Published.FASTER, Verdict.PASS, figures={"value": 2, "low": 1.9, "high": 2.1, "n": 9, "basis": "m"}),
        row(2, Published.FASTER, Verdict.PASS, figures={"value": 1, "low": 0.9, "high": 1.1, "n": 9, "basis": "m"}),
        row(3, Published.FASTER, Verdict.WRONG, message="candidate.py:12: off by 3.5e-1", round=wrong, launches=1),
        row(4, Published.FASTER, Verdict.WRONG, message="candidate.py:70: off by 12", round={**wrong, "error": 0.2}),
        row(5, Published.WRONG, Verdict.PASS),
        row(6, Published.COMPILE_ERROR, Verdict.COMPILE_FAILED),
    ]
    found = report([*rows, rows[5]])  # a later row of the same key replaces the first
    assert found.relations == {"agrees": 3, "differs": 3, "undecided": 0, "lost": 0}
    assert (found.passes_published_faster, found.faster_here_too) == (2, 1)
    lines = {line.published: (line.n, dict(line.ours)) for line in found.lines}
    assert lines[Published.FASTER] == (4, {"pass": 2, "wrong x.y": 2})
    group = found.groups[0]
    assert (group.ours, group.n, group.examples) == ("wrong x.y", 2, ("one#3", "one#4"))
    assert group.evidence[0] == "2 x here: off by N"
    text = "\n".join(explanations(found))
    assert "2.0e-03 to 2.0e-01" in text and "1 of 2 are below 0.05" in text and "1 of 2 launch kernels" in text
    assert len(table(found)) == 1 + len(found.lines)
    assert conclusion(found).startswith("6 kernels: 3 agrees, 3 differs")


def test_nothing_judged_is_said():
    with pytest.raises(ValueError, match="nothing was judged"):
        report([])
