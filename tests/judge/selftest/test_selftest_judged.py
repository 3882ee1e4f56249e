"""The judge passes its own self-test: every attack, honest kernel and planted bug that needs no GPU."""

from __future__ import annotations

import dataclasses
import json

import pytest
from django.core.management import call_command

from judge.bench.runner import Bench
from judge.selftest.entries import Corpus, Entry, chosen, endings, entries
from judge.selftest.models import SelfTest
from judge.selftest.results import EntryResult, Report, State
from judge.selftest.run import bench_kind, run_entries
from judge.values import Job, Outcome, Verdict
from tests.judge.bench.test_cuda_device import has_gpu

pytestmark = pytest.mark.bench


class Lent:
    """A bench of the session: the self-test may use it, but not close it."""

    def __init__(self, bench) -> None:
        self.bench = bench
        self.admit, self.facts = bench.admit, bench.facts

    def evaluate(self, job: Job) -> Outcome:
        return self.bench.evaluate(job)

    def close(self) -> None:
        """The session does."""


@pytest.fixture
def lent(cpu_bench, interpreter_bench):
    return lambda name: Lent({"cpu": cpu_bench, "interpreter": interpreter_bench}[name])


def wrong(rows: tuple[EntryResult, ...]) -> list[str]:
    return [f"{row.id}: {row.verdict} {row.reason}, expected {row.expected}. {row.message}" for row in rows]


def failing(report: Report) -> tuple[EntryResult, ...]:
    return tuple(row for row in report.results if row.state is not State.RIGHT)


ENTRIES = sorted(
    (entry for entry in entries() if bench_kind(entry, "interpreter")),
    key=lambda entry: (bench_kind(entry, "interpreter"), entry.problem.source),  # a referee stays at its problem
)
SLICES = 16


@pytest.mark.parametrize("number", range(SLICES))
def test_every_entry_ends_as_it_must(lent, number):
    found = tuple(ENTRIES[number * len(ENTRIES) // SLICES : (number + 1) * len(ENTRIES) // SLICES])
    report = run_entries(found, "interpreter", lent, workers=1, whole=False)
    assert not report.skipped and len(report.results) == len(found) >= 10
    assert wrong(failing(report)) == []


def test_a_quick_self_test_has_entries_of_every_corpus():
    found = chosen(entries(), quick=True)
    assert {entry.corpus for entry in found if bench_kind(entry, "interpreter")} >= set(Corpus) - {Corpus.AA}
    assert 10 <= len(found) < len(ENTRIES) / 4


def test_a_judge_that_lets_an_attack_pass_is_found_out(lent):
    """The harness sees the difference: the same entries, and a bench whose verdicts are turned round."""

    class Gullible(Lent):
        def evaluate(self, job: Job) -> Outcome:
            outcome = super().evaluate(job)
            passed = Outcome(Verdict.PASS, stage="correctness", loads=True)
            return passed if outcome.verdict is Verdict.WRONG else outcome

    found = chosen(entries(), ids=("e15_printed_result",))
    report = run_entries(found, "interpreter", lambda name: Gullible(lent(name).bench), workers=1)
    assert report.red and report.counts()[0].missed == ("e15_printed_result",)


@pytest.mark.django_db(transaction=True)
def test_the_command_prints_a_table_and_answers_by_its_exit_status(capsys, monkeypatch, lent):
    for place in ("management.commands.judge_selftest", "selftest.services"):
        monkeypatch.setattr(f"judge.{place}.bench_opener", lambda device: lent)
    call_command("judge_selftest", "--device", "interpreter", "--entry", "e15", "--workers", "1")
    out = capsys.readouterr().out
    assert "e15_printed_result" in out and "1 of    1 rejected or labelled" in out and "green" in out
    assert not SelfTest.objects.exists()  # only a whole run says something about a device
    planted = change(chosen(entries(), ids=("e15",))[0])
    monkeypatch.setattr("judge.management.commands.judge_selftest.entries", lambda: (planted,))
    with pytest.raises(SystemExit) as left:
        call_command("judge_selftest", "--device", "interpreter", "--json", "--workers", "1")
    assert left.value.code == 1
    report = Report.from_json(json.loads(capsys.readouterr().out))
    assert report.red and report.whole and SelfTest.objects.get().red


def change(entry: Entry) -> Entry:
    """The entry with an ending that does not come."""
    return dataclasses.replace(entry, expected={"": endings("crashed run.died")})


@pytest.mark.cuda
@pytest.mark.slow
@pytest.mark.skipif(not has_gpu(), reason="no CUDA device")
def test_every_entry_ends_as_it_must_on_a_gpu():
    found = [entry for entry in entries() if entry.corpus is not Corpus.AA]
    report = run_entries(found, "cuda:0", lambda name: Bench(name, alternatives=False), workers=4)
    assert wrong(failing(report)) == []
