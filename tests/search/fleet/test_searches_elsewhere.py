"""Searches, campaigns and preflights on a device of another machine: from the form to the imported verdict."""

from __future__ import annotations

import json
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from django.utils import timezone

from adaexplore_site.notifications.services import notices
from judge.batch.command import conduct
from judge.batch.lines import BadLine, OutcomeFile, _closed, read_job, read_outcome
from judge.batch.models import BatchJob
from judge.devices.keys import read_key
from judge.devices.models import Device
from judge.devices.services import device_enroll, key_path
from judge.evaluations.models import Evaluation
from judge.problems.admission import admission_queue
from judge.problems.models import Problem
from judge.problems.preflight import preflight
from judge.problems.quarantine import STRIKE
from judge.problems.views import preflight_start
from judge.values import AdmissionReport, JudgeError, Outcome, Verdict
from search.batches.campaigns import CAMPAIGNS, campaign_start
from search.batches.models import CampaignEntry
from search.engine.waiting import carrying
from search.fleet.remote import MOST_LOST
from search.records.models import Node, Run, RunEvent
from search.records.queue import FollowUp
from search.runs.services import run_start
from tests.judge.batch.test_batch_run import FakeBench
from tests.judge.batch_makers import SEALED, passed, tells_sealed
from tests.pages import client_of
from tests.search.makers import Worker, make_problem, make_run

pytestmark = pytest.mark.django_db

ADMITTED = AdmissionReport("admitted", graph={"nodes": []})
BREAKS = Outcome(Verdict.REFUSED_PROBLEM, stage="smoke", reason="problem.breaks_off", message="it came to no verdict")
LOST = Outcome(Verdict.LOST, stage="judge", reason="judge.failed", message="no child")


class There(FakeBench):
    """The bench on the other machine: admits every problem, and answers as it was told or with an audited pass."""

    def __init__(self, *answers: object) -> None:
        super().__init__(*answers)
        self.asked: list = []
        self.seeds: list[str] = []

    def admit(self, problem, *, limits):
        return ADMITTED

    def seal(self, problem, *, seed, limits):
        self.seeds.append(seed)
        return SEALED

    def evaluate(self, job):
        self.asked.append(job)
        if self.answers:
            return super().evaluate(job)
        return passed(1.0 + len(self.asked), basis="modelled")


class Road:
    """Carries jobs to the other machine and outcomes back, by the commands."""

    def __init__(self, folder, device: Device) -> None:
        self.folder, self.device = folder, device

    def export(self, *chosen: str) -> list:
        chosen = chosen or ("--waiting", "--device", self.device.name)
        call_command("judge_export_jobs", *chosen, "--out", str(self.folder / "jobs.jsonl"), stdout=StringIO())
        key = read_key(key_path(self.device.name))
        return [read_job(line, key) for line in (self.folder / "jobs.jsonl").read_bytes().splitlines()]

    def there(self, bench: There) -> None:
        with OutcomeFile(self.folder / "out.jsonl") as out:
            key = read_key(key_path(self.device.name))
            conduct(self.folder / "jobs.jsonl", out, bench=bench, key=key, say=lambda line: None)

    def back(self) -> str:
        out = StringIO()
        call_command("judge_import_outcomes", str(self.folder / "out.jsonl"), stdout=out)
        (self.folder / "out.jsonl").unlink()
        return out.getvalue()

    def trip(self, bench: There) -> str:
        self.export()
        self.there(bench)
        return self.back()


@pytest.fixture
def road(settings, tmp_path) -> Road:
    settings.DATA_DIR = tmp_path / "data"
    device, _ = device_enroll(name="far", kind=Device.Kind.INTERPRETER, arch="sm_90")
    return Road(tmp_path, device)


def admitted(device: Device, name: str = "relu"):
    problem = make_problem(name)
    problem.admission |= {device.name: {"state": "admitted", "case": None, "graph": {"nodes": []}}}
    problem.save()
    return problem


def waiting_run(road: Road, **fields) -> tuple[Run, Worker]:
    """A running search whose kernels wait to be carried."""
    run = make_run(device=road.device, problem=admitted(road.device), **{"steps": 3, "concurrency": 1} | fields)
    worker = Worker()
    worker.work([FollowUp("advance", run.pk)])
    return run, worker


def test_a_search_on_another_machine_runs_to_its_end_by_export_and_import(road) -> None:
    run, worker = waiting_run(road)
    bench = There()
    for _ in range(3):
        assert Node.objects.filter(run=run, state="judging").count() == 1
        assert "1 waiting nodes completed" in road.trip(bench)
        worker.work(worker.later(0))
    run.refresh_from_db()
    assert run.state == Run.State.FINISHED and len(bench.asked) == 3
    assert RunEvent.objects.filter(run=run, kind="node.best").exists()


def test_a_job_knows_the_best_so_far_so_that_only_a_better_kernel_is_audited(road) -> None:
    _run, worker = waiting_run(road)
    bench = There()
    for _ in range(2):
        road.trip(bench)
        worker.work(worker.later(0))
    first, second = bench.asked
    assert (first.beat, first.incumbent) == (None, None)
    assert second.beat == 2.0 and second.incumbent == first.candidate


def test_a_job_that_waits_keeps_the_best_of_its_first_export(road) -> None:
    _run, _worker = waiting_run(road, concurrency=2, steps=4)
    (_one, two) = road.export()
    key = read_key(key_path("far"))
    with OutcomeFile(road.folder / "out.jsonl") as out:
        lines = (road.folder / "jobs.jsonl").read_bytes().splitlines()
        (road.folder / "first.jsonl").write_bytes(lines[0] + b"\n")
        conduct(road.folder / "first.jsonl", out, bench=There(), key=key, say=lambda line: None)
    road.back()
    again = road.export()
    assert [sent.job.id for sent in again] == [two.job.id] and again[0].digest == two.digest


def test_a_known_verdict_of_that_machine_completes_a_node_without_a_job(road) -> None:
    first, worker = waiting_run(road, seed=1)
    bench = There()
    for _ in range(3):
        road.trip(bench)
        worker.work(worker.later(0))
    second = make_run(device=road.device, problem=first.problem, seed=1, steps=3, concurrency=1)
    Worker().work([FollowUp("advance", second.pk)])
    second.refresh_from_db()
    assert second.state == Run.State.FINISHED and len(bench.asked) == 3
    assert all(Node.objects.filter(run=second).exclude(number=0).values_list("reused", flat=True))


def test_a_preflight_leaves_as_a_job_and_its_report_admits_the_problem(road) -> None:
    problem = make_problem("fresh")
    preflight_start(problem, road.device)
    preflight_start(problem, road.device)
    (sent,) = road.export()
    assert sent.preflight and not sent.job.candidate
    road.there(There())
    assert "preflight of fresh on far: admitted" in road.back()
    problem.refresh_from_db()
    check = preflight(problem, road.device, now=timezone.now())
    assert check.usable and check.report["environment"]["batch"]["signed"] is True
    assert not road.export()
    run_start(problem=problem, device=road.device, proposer="builtin", steps=1)


def test_a_preflight_there_derives_the_sealed_cases_of_every_later_job(road) -> None:
    problem, bench = make_problem("fresh"), There()
    preflight_start(problem, road.device)
    (sent,) = road.export()
    assert sent.seal
    road.there(bench)
    outcome = (road.folder / "out.jsonl").read_text()
    assert bench.seeds[0] not in (road.folder / "jobs.jsonl").read_text(), "the seed is drawn there"
    assert tells_sealed(outcome) and not tells_sealed(road.back())
    problem.refresh_from_db()
    found = problem.sealed_set(None)
    assert (found.seed, found.as_cases()) == (bench.seeds[0], SEALED)
    entry = problem.report_for(road.device.name)
    assert not tells_sealed(json.dumps(entry)) and "sealed" in {stage["name"] for stage in entry["stages"]}
    make_run(device=road.device, problem=problem, steps=1)
    Worker().work([FollowUp("advance", Run.objects.get().pk)])
    (job,) = road.export()
    assert job.job.problem.sealed == SEALED and not job.seal
    admission_queue(problem=problem, device=road.device)
    assert not next(one for one in road.export() if one.preflight).seal, "there are some, and nobody has seen them"


def test_where_no_sealed_cases_come_back_the_preflight_says_so(road) -> None:
    class Fails(There):
        def seal(self, problem, *, seed, limits):
            raise JudgeError("its child died")

    problem = make_problem("fresh")
    preflight_start(problem, road.device)
    assert "admitted" in road.trip(Fails())
    problem.refresh_from_db()
    assert problem.sealed_set(None) is None
    (stage,) = [one for one in problem.report_for(road.device.name)["stages"] if one["name"] == "sealed"]
    assert stage["state"] == "warned" and "the judge failed to derive them" in stage["detail"]


@pytest.mark.parametrize("sealed", [{"seed": "short", "cases": []}, {"seed": "ab" * 16, "cases": [{}] * 65}, []])
def test_sealed_cases_of_another_form_are_refused(road, sealed) -> None:
    preflight_start(make_problem("fresh"), road.device)
    road.export()
    road.there(There())
    key = read_key(key_path(road.device.name))
    body = json.loads((road.folder / "out.jsonl").read_text()) | {"sealed": sealed}
    body.pop("mac")
    with pytest.raises(BadLine, match="no complete outcome"):
        read_outcome(_closed(body, key), {key.device: key})


def test_a_preflight_that_the_judge_cannot_do_there_is_tried_again_and_then_failed(road) -> None:
    class Broken(There):
        def admit(self, problem, *, limits):
            raise JudgeError("no child")

    problem = make_problem("fresh")
    preflight_start(problem, road.device)
    for tries in range(MOST_LOST):
        assert preflight(problem, road.device, now=timezone.now()).state == "queued", tries
        road.trip(Broken())
        problem.refresh_from_db()
        Device.objects.update(state="active", state_cause="", faults=0)
    check = preflight(problem, road.device, now=timezone.now())
    assert check.state == "failed" and "other machine" in check.why_not


def test_a_campaign_waits_for_the_preflights_and_then_searches(road) -> None:
    problems = [make_problem("one"), make_problem("two")]
    campaign = campaign_start(problems=problems, steps=2, device=road.device, at_once=2)
    for follow_up in CAMPAIGNS.advance(campaign.pk):
        CAMPAIGNS.admit(follow_up.target, bench_for=lambda device: pytest.fail("nothing is judged here"))
    assert {sent.preflight for sent in road.export()} == {True}
    road.there(There())
    road.back()
    CAMPAIGNS.advance(campaign.pk)
    started = CampaignEntry.objects.filter(campaign=campaign, state=CampaignEntry.State.STARTED)
    assert started.count() == 2


def test_a_fault_of_the_judge_there_is_no_verdict_and_costs_no_step(road) -> None:
    run, _worker = waiting_run(road)
    (before,) = road.export()
    lost = There(LOST)
    road.there(lost)
    told = (road.folder / "out.jsonl").read_bytes()
    assert "no verdict" in road.back() and not Evaluation.objects.exists()
    assert Node.objects.filter(run=run).completed().count() == 0
    (again,) = road.export()
    assert (again.job.id, again.nonce != before.nonce) == (before.job.id, True)
    (road.folder / "out.jsonl").write_bytes(told)
    road.back()  # the same file again counts once
    assert len(BatchJob.objects.get().lost) == 1
    assert "1 waiting nodes completed" in road.trip(There())
    node = Node.objects.get(run=run, number=1)
    assert node.evaluation.verdict == Verdict.PASS


def test_nothing_of_a_quarantined_problem_is_exported_by_name(road) -> None:
    run, _worker = waiting_run(road)
    Problem.objects.update(quarantined_at=timezone.now(), quarantine_reason="it hangs")
    with pytest.raises(CommandError, match="is quarantined"):
        road.export("--run", str(run.pk))
    assert not BatchJob.objects.exists()


def test_the_same_outcomes_again_are_no_second_strike_against_a_problem(road) -> None:
    waiting_run(road)
    road.export()
    road.there(There(BREAKS))
    outcomes = (road.folder / "out.jsonl").read_bytes()
    for _ in range(3):
        (road.folder / "out.jsonl").write_bytes(outcomes)
        road.back()
    row = Problem.objects.get()
    assert row.strikes == STRIKE and not row.quarantined


def test_three_faults_in_a_row_quarantine_the_device_and_the_search_waits(road) -> None:
    run, _ = waiting_run(road)
    for _ in range(3):
        road.trip(There(LOST))
    road.device.refresh_from_db()
    assert (road.device.state, road.device.state_cause) == ("quarantined", "faults")
    assert Node.objects.filter(run=run, state="judging").count() == 1


def test_a_job_that_always_meets_a_fault_is_withdrawn_and_its_step_is_free_again(road) -> None:
    run, worker = waiting_run(road)
    for _ in range(MOST_LOST):
        road.trip(There(LOST))
        Device.objects.update(state="active", state_cause="", faults=0)
    node = Node.objects.get(run=run, number=1)
    assert node.state == Node.State.CANCELLED and not RunEvent.objects.filter(run=run, kind="node.told").exists()
    worker.work(worker.later(0))
    assert Node.objects.filter(run=run, state="judging").count() == 1
    for _ in range(3):
        road.trip(There())
        worker.work(worker.later(0))
    run.refresh_from_db()
    assert run.state == Run.State.FINISHED and Node.objects.filter(run=run).completed().count() == 3


def test_pages_say_what_a_search_waits_for_and_how_it_is_carried(road) -> None:
    run, _ = waiting_run(road, concurrency=2, steps=4)
    client = client_of("operator")
    page = client.get(reverse("run-detail", args=[run.pk])).content.decode()
    assert "2 jobs wait for" in page and f"judge_export_jobs --run {run.pk} --out jobs.jsonl" in page
    assert "judge_import_outcomes outcomes.jsonl" in page
    assert "2 jobs to carry to" in client.get(reverse("run-list")).content.decode()
    RunEvent.objects.filter(run=run).update(created_at=timezone.now() - timedelta(hours=1))
    now = timezone.now()
    (notice,) = [one for one in notices(now - timedelta(days=1), now=now, reviewer=False) if one.holds]
    assert "2 jobs wait" in notice.text and "--waiting --device far" in notice.detail
    road.trip(There())
    assert not carrying([Run.objects.select_related("device").get(pk=run.pk)])


def test_with_a_shared_folder_only_the_other_machine_is_named(road, settings) -> None:
    settings.JUDGE_FOLDER = "/mnt/jobs"
    run, _ = waiting_run(road)
    (command,) = carrying([run])[run.pk].commands
    assert command == "python -m judge.bench serve /mnt/jobs --device interpreter --key far.key"


def test_the_form_starts_a_search_on_an_enrolled_device_and_its_preflight_first(road) -> None:
    problem = make_problem("fresh")
    client = client_of("operator")
    form = {"problem": problem.slug, "device": "far", "proposer": "builtin", "steps": 2, "key": "k1"}
    assert client.post(reverse("run-new"), form).status_code == 200 and not Run.objects.exists()
    page = client.get(reverse("run-new"), {"problem": problem.slug, "device": "far"}).content.decode()
    assert "--waiting --device far" in page
    road.trip(There())
    assert client.post(reverse("run-new"), form).status_code == 302
    assert Run.objects.get().device == road.device


def test_a_draining_enrolled_device_takes_no_search(road) -> None:
    problem = admitted(road.device)
    Device.objects.filter(pk=road.device.pk).update(state="draining")
    road.device.refresh_from_db()
    with pytest.raises(Exception, match="takes no new searches"):
        run_start(problem=problem, device=road.device, proposer="builtin", steps=1)


def test_waiting_needs_an_enrolled_device(road) -> None:
    with pytest.raises(CommandError, match="judge_enroll_device"):
        road.export("--waiting", "--device", "nowhere")
