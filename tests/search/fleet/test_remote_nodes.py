"""Nodes whose device has no worker here: their kernels leave as jobs, and the outcomes tell them."""

from __future__ import annotations

import stat
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from judge.batch.command import conduct
from judge.batch.lines import OutcomeFile, read_job
from judge.batch.services import jobs_export
from judge.devices.keys import read_key
from judge.devices.models import Device
from judge.devices.services import device_enroll, key_path
from judge.evaluations.models import Evaluation
from judge.problems.models import Problem
from judge.values import canonical_hash
from search.engine.leases import QUEUE_S, reap
from search.fleet.remote import requests_waiting
from search.records.models import Node, RunEvent
from search.records.queue import FollowUp
from tests.judge.batch.test_batch_run import FakeBench as BatchBench
from tests.judge.batch_makers import passed
from tests.search.makers import Worker, make_problem, make_run

pytestmark = pytest.mark.django_db


class Modelled(BatchBench):
    """A bench on another machine that passes everything, a little faster each time."""

    def evaluate(self, job):
        self.jobs.append(job.id)
        return passed(1.0 + len(self.jobs), basis="modelled")


@pytest.fixture
def data(settings, tmp_path):
    settings.DATA_DIR = tmp_path / "data"
    return tmp_path


def stranded_run(steps: int = 3):
    """A run whose device's machine went away after its nodes were proposed."""
    problem = make_problem()
    device = Device.objects.create(name="far", kind=Device.Kind.INTERPRETER, title="far", arch="sm_90")
    problem.admission |= {"far": {"state": "admitted", "case": None, "graph": {"nodes": []}}}
    problem.save()
    run = make_run(device=device, problem=problem, steps=steps, concurrency=2)
    worker = Worker()
    follow_ups = worker.do(FollowUp("advance", run.pk))
    for follow_up in follow_ups:
        worker.do(follow_up)  # proposed; the follow-up task to the judge is lost with its machine
    run.device, _ = device_enroll(name="far", kind=Device.Kind.INTERPRETER, arch="sm_90")
    return run, worker


def export(folder, *arguments: str) -> list:
    call_command("judge_export_jobs", *arguments, "--out", str(folder / "jobs.jsonl"), stdout=StringIO())
    key = read_key(key_path("far"))
    return [read_job(line, key) for line in (folder / "jobs.jsonl").read_bytes().splitlines()]


def judge_there(folder) -> None:
    with OutcomeFile(folder / "out.jsonl") as out:
        conduct(folder / "jobs.jsonl", out, bench=Modelled(), key=read_key(key_path("far")), say=lambda line: None)


def bring_back(folder) -> str:
    out = StringIO()
    call_command("judge_import_outcomes", str(folder / "out.jsonl"), stdout=out)
    return out.getvalue()


def test_waiting_nodes_leave_as_jobs_and_are_told_by_the_outcomes(data) -> None:
    run, worker = stranded_run()
    waiting = list(Node.objects.filter(run=run, state="judging").order_by("number"))
    jobs = export(data, "--run", str(run.pk))
    assert [job.job.candidate for job in jobs] == [node.source for node in waiting]
    assert stat.S_IMODE((data / "jobs.jsonl").stat().st_mode) == 0o600
    judge_there(data)
    assert "2 waiting nodes completed" in bring_back(data)
    for node in waiting:
        node.refresh_from_db()
        assert node.state == Node.State.COMPLETED and node.evaluation.verdict == "pass" and not node.reused
    assert RunEvent.objects.filter(run=run, kind="node.best").exists()
    before = Evaluation.objects.count(), RunEvent.objects.count()
    assert "2 known before; 0 waiting nodes completed" in bring_back(data)
    assert (Evaluation.objects.count(), RunEvent.objects.count()) == before
    assert [follow_up.task for follow_up in reap(now=worker.now)] == ["advance"]  # and the search goes on


def test_an_import_that_died_before_it_told_the_nodes_is_made_good_by_the_next(data, monkeypatch) -> None:
    run, _ = stranded_run()
    export(data, "--run", str(run.pk))
    judge_there(data)
    with monkeypatch.context() as broken:
        broken.setattr("search.management.commands.judge_import_outcomes.nodes_answered", lambda **_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            bring_back(data)
    assert Node.objects.filter(run=run, state="judging").count() == 2
    assert "2 waiting nodes completed" in bring_back(data)


def test_the_reaper_sends_no_message_to_a_queue_that_nobody_serves(data) -> None:
    run, worker = stranded_run()
    assert not [follow_up for follow_up in worker.later(2 * QUEUE_S) if follow_up.task == "judge_node"]
    assert Node.objects.filter(run=run, state="judging").count() == 2


def test_told_kernels_can_be_measured_anew_elsewhere(data) -> None:
    run, _ = stranded_run()
    export(data, "--run", str(run.pk))
    judge_there(data)
    bring_back(data)
    told = {node.number: node for node in Node.objects.filter(run=run, state="told").exclude(number=0)}
    best = max(told.values(), key=lambda node: node.evaluation.speedup)
    device_enroll(name="near", kind=Device.Kind.CUDA, arch="sm_90")

    def chosen(*arguments: str) -> list[str]:
        call_command("judge_export_jobs", *arguments, "--device", "near", "--out", str(data / "j"), stdout=StringIO())
        lines = (data / "j").read_bytes().splitlines()
        return [read_job(line, read_key(key_path("near"))).job.candidate for line in lines]

    assert set(chosen("--run", str(run.pk))) == {node.source for node in told.values()}
    assert chosen("--run", str(run.pk), "--top", "1") == [best.source]
    assert chosen("--problem", run.problem.slug, "--top", "1") == [best.source]
    number = min(told)
    assert chosen("--run", str(run.pk), "--nodes", str(number)) == [told[number].source]


def test_a_selection_that_is_empty_or_impossible_says_what_to_do(data) -> None:
    run, _ = stranded_run()
    device_enroll(name="near", kind=Device.Kind.CUDA, arch="sm_90")
    here = make_run()
    for arguments, said in (
        (("--run", "999"), "no run 999"),
        (("--run", str(run.pk), "--nodes", "77"), "no kernel under node 77"),
        (("--run", str(run.pk), "--device", "near"), "has passed"),
        (("--run", str(run.pk), "--device", "nowhere"), "judge_enroll_device"),
        (("--run", str(here.pk)), "this machine's worker"),
        (("--problem", "nothing", "--device", "near"), "no problem 'nothing'"),
        (("--problem", run.problem.slug, "--device", "near", "--nodes", "1"), "--nodes goes with --run"),
        (("--run", str(run.pk), "--out", "/nowhere/at/all"), "cannot be written"),
    ):
        out = () if "--out" in arguments else ("--out", str(data / "none"))
        with pytest.raises(CommandError, match=said):
            call_command("judge_export_jobs", *arguments, *out)
    key_path("near").unlink()
    with pytest.raises(CommandError, match="is gone"):
        call_command(
            "judge_export_jobs", "--run", str(run.pk), "--nodes", "1", "--device", "near", "--out", str(data / "x")
        )


def test_what_is_quarantined_does_not_leave(data) -> None:
    run, worker = stranded_run()
    Problem.objects.update(quarantined_at=worker.now)
    assert requests_waiting(device=run.device, now=worker.now) == []
    Problem.objects.update(quarantined_at=None)
    assert len(requests_waiting(device=run.device, now=worker.now)) == 2


def test_asking_what_waits_costs_the_same_for_one_node_and_for_many(data, django_assert_num_queries) -> None:
    run, _ = stranded_run()
    device = run.device

    def ask() -> int:
        return len(jobs_export(requests=requests_waiting(device=device, now=timezone.now()), device=device))

    def copies(of: int) -> None:
        node = Node.objects.filter(run=run, state=Node.State.JUDGING).first()
        for number in range(of):
            source = f"class ModelNew{number}: ..."
            other = make_run(device=device, problem=run.problem)
            for owner in (run, other):
                Node.objects.create(
                    run=owner, number=100 + number, kind=node.kind, state=node.state, parent=node.parent,
                    source=f"{source}{owner.pk}", source_hash=canonical_hash(f"{source}{owner.pk}"),
                )  # fmt: skip

    assert ask() == 2
    with CaptureQueriesContext(connection) as few:
        ask()
    copies(6)
    assert ask() == 14  # the jobs are made
    with django_assert_num_queries(len(few)):
        assert ask() == 14
    assert len(few) <= 12
