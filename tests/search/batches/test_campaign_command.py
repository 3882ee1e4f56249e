"""`campaign`: starts and drives one without workers."""

from __future__ import annotations

import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from judge.problems.models import Problem
from search.batches.campaigns import CAMPAIGNS
from search.batches.models import Campaign
from search.management.commands import campaign as command
from search.proposers.protocol import ProposerError
from search.records.models import Run
from tests.judge.problems.test_problem_upload import text
from tests.search.campaign_rows import AdmittingBench, refused, unseen
from tests.search.fakes import Killed, ScriptedProposer
from tests.search.makers import make_device, make_problem, told

pytestmark = pytest.mark.django_db


@pytest.fixture
def campaign(monkeypatch):
    """Calls the command with fakes; returns what it printed."""
    bench, proposer = AdmittingBench(), ScriptedProposer()
    monkeypatch.setattr(command, "bench_for", bench)
    monkeypatch.setattr(command, "get_proposer", proposer)
    monkeypatch.setattr(command, "devices_sync", lambda: None)
    monkeypatch.setattr(command.Command, "sleep", staticmethod(lambda seconds: None))

    def call(*args: str) -> str:
        out = StringIO()
        call_command("campaign", *args, stdout=out, stderr=StringIO())
        return out.getvalue()

    call.bench, call.proposer = bench, proposer
    make_device()
    return call


def test_it_drives_every_search_and_prints_the_report(campaign):
    make_problem("a"), unseen("b")
    campaign.bench.refuse = ("c",)
    unseen("c")
    text = campaign("start", "--problems", "a", "b", "c", "--steps", "9", "--seed", "3")
    row = Campaign.objects.get()
    assert (row.state, row.driven_until) == (Campaign.State.FINISHED, None)
    assert sum(len(told(run)) for run in Run.objects.all()) == 9
    assert "3 of 3 problems done, 9 of 9 steps; 2 finished, 1 refused" in text
    assert "forward() fails." in text and "MODELLED: 2 problems, 2 searches" in text


@pytest.mark.parametrize("known", [True, False])
def test_a_campaign_whose_problems_are_all_refused_ends_with_the_reason_of_each(campaign, known):
    campaign.bench.refuse = ("a", "b")
    for name in ("a", "b"):
        refused(name) if known else unseen(name)
    with pytest.raises(CommandError, match="No search was started: every problem was refused"):
        campaign("start", "--problems", "a", "b", "--steps", "6")
    row = Campaign.objects.get()
    assert row.state == Campaign.State.FINISHED and not Run.objects.exists()
    assert campaign("status", str(row.pk)).count("forward() fails.") == 2


def test_problems_start_in_their_order_however_many_wait_for_a_preflight(campaign):
    names = [f"p{number:02}" for number in range(14)]
    for name in names:
        unseen(name)
    campaign("start", "--problems", *names, "--steps-each", "1")
    assert list(Run.objects.order_by("pk").values_list("problem__slug", flat=True)) == names
    assert campaign.bench.admitted == 14


def test_it_goes_on_at_once_after_a_kill_during_a_preflight(campaign, monkeypatch):
    unseen("a")

    def killed(problem, **kw):
        raise Killed

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(campaign.bench, "admit", killed)
        campaign("start", "--problems", "a", "--steps", "1")

    def nap(seconds):
        raise AssertionError("it waits for a process that is gone")

    monkeypatch.setattr(command.Command, "sleep", staticmethod(nap))
    campaign("resume", str(Campaign.objects.get().pk))
    assert Campaign.objects.get().state == Campaign.State.FINISHED and campaign.bench.admitted == 1


def test_it_ends_when_a_paused_search_holds_the_only_place(campaign, monkeypatch):
    naps = []

    def nap(seconds):
        naps.append(seconds)
        assert len(naps) < 20, "it waits for ever"

    def away(task):
        raise ProposerError("away", permanent=False)

    monkeypatch.setattr(command.Command, "sleep", staticmethod(nap))
    campaign.proposer.answers = dict.fromkeys(range(1, 60), away)
    make_problem("a"), make_problem("b")
    with pytest.raises(CommandError, match="a search is paused"):
        campaign("start", "--problems", "a", "b", "--steps-each", "1")
    assert Run.objects.get().state == Run.State.PAUSED


def test_a_folder_is_imported_and_taken_in_numeric_order(campaign, tmp_path):
    for name in ("level2/10_B.py", "level2/2_A.py", "level1/3_C.py"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text(int(name.split("/")[1].split("_")[0])))
    campaign("start", "--folder", str(tmp_path), "--steps-each", "1")
    assert [entry.problem.title for entry in Campaign.objects.get().entries.order_by("place")] == [
        "L1 3 C",
        "L2 2 A",
        "L2 10 B",
    ]


def test_a_filter_chooses_by_level_state_and_words(campaign):
    for name, level in (("x1", "level2"), ("x2", "level2"), ("x3", "level12"), ("y", "level2")):
        make_problem(name)
        Problem.objects.filter(slug=name).update(level=level)
    Problem.objects.filter(slug="x2").update(state="degenerate")
    campaign("start", "--level", "2", "--state", "admitted", "--match", "x", "--steps-each", "1")
    assert [entry.problem.slug for entry in Campaign.objects.get().entries.all()] == ["x1"]


def test_ctrl_c_pauses_and_resume_goes_on(campaign):
    make_problem("a"), make_problem("b")

    def interrupt(task):
        raise KeyboardInterrupt

    campaign.proposer.answers[2] = interrupt
    with pytest.raises(CommandError, match=r"Paused, nothing is lost. Resume it with: manage.py campaign resume"):
        campaign("start", "--problems", "a", "b", "--steps", "6")
    row = Campaign.objects.get()
    assert (row.state, row.driven_until, Run.objects.get().state) == (Campaign.State.PAUSED, None, Run.State.PAUSED)
    campaign.proposer.answers.clear()
    Run.objects.get().nodes.exclude(lease_owner="").update(lease_until=row.created_at)
    campaign("resume", str(row.pk))
    assert [len(told(run)) for run in Run.objects.order_by("pk")] == [3, 3]


def test_detached_it_only_begins_and_status_tells(campaign):
    make_problem("a")
    assert "Workers advance it" in campaign("start", "--problems", "a", "--steps", "3", "--detach")
    pk = Campaign.objects.get().pk
    assert not Run.objects.exists()
    assert [hop.task for hop in CAMPAIGNS.advance_all()] == ["advance"]
    document = json.loads(campaign("status", str(pk), "--json"))
    assert (document["state"], document["held"], document["problems"][0]["state"]) == ("running", 3, "running")
    assert "paused" in campaign("pause", str(pk)) and "stopped" in campaign("stop", str(pk))
    assert f"campaign {pk}" in campaign("list")


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["start", "--steps", "3"], "Choose problems"),
        (["start", "--steps", "3", "--problems", "zz"], "no problem 'zz'"),
        (["start", "--steps", "3", "--folder", "/nowhere"], "does not exist"),
        (["start", "--steps", "3", "--match", "a", "--device", "cuda:9"], "cuda:9"),
        (["start", "--steps", "3", "--match", "nothing"], "No problem is chosen"),
        (["start", "--steps", "3", "--match", "a", "--params", "w=x"], "w must be a number"),
        (["status", "7"], "no campaign 7"),
    ],
)
def test_what_cannot_be_is_told(campaign, args, said):
    make_problem("a")
    with pytest.raises(CommandError, match=said):
        campaign(*args)
    assert not Campaign.objects.exists()
