"""`adapt`: composes, drives and shows an adapt run without workers."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from judge.problems.models import Problem
from memory.adapt.models import AdaptRun
from search.management.commands import adapt as command
from search.records.models import Node
from tests.search.adapt_rows import ScriptedWriter, assert_exact, make_adapt, make_samples, searches
from tests.search.campaign_rows import AdmittingBench, refused
from tests.search.fakes import ScriptedProposer
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db
SMALL = ("--tasks", "2", "--steps", "2", "--control-steps", "1", "--seed", "1")


@pytest.fixture
def adapt(monkeypatch):
    """Calls the command with fakes; returns what it printed. `said` is its progress."""
    bench, proposer, write = AdmittingBench(), ScriptedProposer(), ScriptedWriter()
    monkeypatch.setattr(command, "bench_for", bench)
    monkeypatch.setattr(command, "get_proposer", proposer)
    monkeypatch.setattr(command, "write_task", write)
    monkeypatch.setattr(command, "devices_sync", lambda: None)
    monkeypatch.setattr(command, "samples_seed", make_samples)
    monkeypatch.setattr(command.Command, "sleep", staticmethod(lambda seconds: None))

    def call(*args: str) -> str:
        out, call.said = StringIO(), StringIO()
        call_command("adapt", *args, stdout=out, stderr=call.said)
        return out.getvalue()

    call.bench, call.proposer = bench, proposer
    call.write = write
    make_device()
    return call


def test_one_command_composes_searches_compares_and_prints(adapt):
    text = adapt(*SMALL)
    row = AdaptRun.objects.get()
    assert_exact(row)
    assert row.lease_until is None and row.proposer_options == {"dialect": "mixed"}
    assert "2 tasks composed, 2 admitted, 2 attempted, 2 ended" in text
    assert "paired difference: +0.0 points [" in text and "no effect shown" in text
    said = adapt.said.getvalue()
    assert "task 1: Task 1" in said and said.count("of 2 attempts pass") == 2


def test_the_document_holds_tasks_counts_cost_and_effect(adapt):
    document = json.loads(adapt(*SMALL, "--json", "--option", "dialect=installed", "--trust", "reviewed"))
    assert document["proposer_options"] == {"dialect": "installed"} and document["memory"]["trust"] == "reviewed"
    assert [entry["first_with"] for entry in document["entries"]] == [True, True]
    assert document["effect"]["first"]["n"] == 2 and document["effect"]["verdict"] == "no effect shown"
    assert document["progress"]["attempted"] == 2 and document["spent"]["usd"] == "0"


def test_interrupted_it_says_how_to_go_on_and_resume_ends_it(adapt):
    def interrupt(task):
        raise KeyboardInterrupt

    adapt.proposer.answers = {2: interrupt}
    with pytest.raises(CommandError, match=r"adapt --resume \d+") as raised:
        adapt(*SMALL)
    assert raised.value.returncode == 130
    row = AdaptRun.objects.get()
    assert row.state == AdaptRun.State.PAUSED
    adapt.proposer.answers = {}
    Node.objects.exclude(lease_until=None).update(lease_until=timezone.now())  # as if some seconds had passed
    adapt("--resume", str(row.pk))
    assert_exact(row)
    assert "finished" in adapt("--resume", str(row.pk))
    assert_exact(row)


def test_a_transfer_takes_imported_problems(adapt):
    adapt(*SMALL)
    make_problem("real")
    Problem.objects.filter(slug="real").update(origin=Problem.Origin.IMPORT)
    first = AdaptRun.objects.get()
    adapt("--transfer", str(first.pk), "--origin", "import", "--steps", "2", "--control-steps", "2")
    moved = first.transfers.get()
    assert [run.problem.slug for _, run, _ in searches(moved)] == ["real"]
    assert not moved.entries.exclude(recipe__transfer=first.pk).exists()


def test_an_adapt_run_of_which_every_task_is_refused_ends_with_the_reason_of_each(adapt):
    adapt.bench.refuse = tuple(f"task{place}" for place in range(1, 20))
    with pytest.raises(CommandError, match=r"No task was attempted\. Of 13 composed tasks 0 could be attempted"):
        adapt("--tasks", "1", *SMALL[2:])
    row = AdaptRun.objects.get()
    assert row.state == AdaptRun.State.FINISHED
    assert adapt("--status", str(row.pk)).count("forward() fails.") == 13


def test_a_transfer_to_problems_that_are_all_refused_ends_with_the_reason_of_each(adapt):
    adapt(*SMALL)
    first = AdaptRun.objects.get()
    refused("real")
    with pytest.raises(CommandError, match="None of 1 tasks could be attempted"):
        adapt("--transfer", str(first.pk), "--problems", "real", "--steps", "2")
    moved = first.transfers.get()
    assert moved.state == AdaptRun.State.FINISHED and moved.stop_reason
    assert "forward() fails." in adapt("--status", str(moved.pk))


def test_status_pause_stop_and_list(adapt):
    row = make_adapt()
    assert "running" in adapt("--status", str(row.pk)) and "running" in adapt("--list")
    assert "paused" in adapt("--pause", str(row.pk))
    assert "stopped" in adapt("--stop", str(row.pk))
    with pytest.raises(CommandError, match="was stopped"):
        adapt("--resume", str(row.pk))


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--status", "99"), "There is no adapt run 99"),
        (("--device", "cuda:7"), "There is no device"),
        (("--proposer", "manual"), "cannot serve"),
        (("--option", "mixed"), "is not name=value"),
        (("--withhold", "7"), "withhold must be"),
        (("--limits", "tokens=9"), "uses no tokens"),
        (("--tasks", "0"), "Tasks must be from 1"),
        (("--params", "w=x"), "w must be a number"),
    ],
)
def test_a_wrong_argument_is_told_in_one_sentence_and_starts_nothing(adapt, args, said):
    with pytest.raises(CommandError, match=said):
        adapt(*args)
    assert not AdaptRun.objects.exists()
