"""A search on another machine through a shared folder: jobs go and outcomes come without a person."""

from __future__ import annotations

import json
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from judge.batch.folder import Folder
from judge.batch.lines import read_job
from judge.batch.serving import FolderPlace, serve
from judge.devices.keys import read_key
from judge.devices.models import Device
from judge.devices.services import device_enroll, key_path
from judge.problems.preflight import preflight
from search import tasks
from search.engine.waiting import carrying
from search.fleet.exchange import KERNELS, PREFLIGHTS, folder_exchange
from search.management.commands import campaign, run_search
from search.records.models import Node, Run
from search.records.queue import FollowUp
from search.runs.services import run_stop
from tests.judge.batch_makers import MARK
from tests.search.fleet.test_searches_elsewhere import LOST, There, admitted
from tests.search.makers import Worker, make_problem, make_run

pytestmark = pytest.mark.django_db
HERE = MARK | {"kind": "interpreter", "gpu": None}


class Shared:
    """A folder with a bench behind it."""

    def __init__(self, root: Path, device: Device) -> None:
        self.root, self.device, self.bench = root, device, There()

    def exchange(self):
        return folder_exchange(root=self.root, now=timezone.now())

    def serve(self) -> int:
        key = read_key(key_path(self.device.name))
        place = FolderPlace(Folder(self.root), self.device.name)
        return serve(
            place, bench=self.bench, key=key, fingerprint=lambda: HERE, say=lambda line: None, once=True
        ).judged  # fmt: skip

    def jobs(self) -> list:
        return Folder(self.root).waiting()


@pytest.fixture
def shared(settings, tmp_path) -> Shared:
    settings.DATA_DIR = tmp_path / "data"
    device, _ = device_enroll(name="far", kind=Device.Kind.INTERPRETER, arch="sm_90")
    return Shared(tmp_path / "shared", device)


def waiting_run(shared: Shared, **fields) -> tuple[Run, Worker]:
    run = make_run(device=shared.device, problem=admitted(shared.device), **{"steps": 3, "concurrency": 1} | fields)
    worker = Worker()
    worker.work([FollowUp("advance", run.pk)])
    return run, worker


def test_a_search_runs_to_its_end_through_the_folder(shared) -> None:
    run, worker = waiting_run(shared)
    for _ in range(3):
        assert shared.exchange().waiting == 1
        assert shared.serve() == 1
        done = shared.exchange()
        assert (done.outcomes, done.completed, done.refused) == (1, 1, [])
        worker.work([*done.follow_ups, *worker.later(0)])
    run.refresh_from_db()
    assert run.state == Run.State.FINISHED
    assert not [path for part in ("jobs", "claims", "outcomes", "done") for path in (shared.root / part).iterdir()]


def test_an_exchange_repeated_writes_and_imports_nothing_twice(shared) -> None:
    waiting_run(shared)
    shared.exchange()
    before = {path.name: path.read_bytes() for path in (shared.root / "jobs").iterdir()}
    assert shared.exchange().waiting == 1
    assert {path.name: path.read_bytes() for path in (shared.root / "jobs").iterdir()} == before
    shared.serve()
    (outcome,) = (shared.root / "outcomes").iterdir()
    content = outcome.read_bytes()
    shared.exchange()
    outcome.write_bytes(content)  # a copy that came once more
    done = shared.exchange()
    assert (done.outcomes, done.completed, done.refused) == (0, 0, []) and not outcome.exists()


def test_preflights_go_before_kernels(shared) -> None:
    waiting_run(shared)
    from judge.problems.views import preflight_start

    problem = make_problem("fresh")
    preflight_start(problem, shared.device)
    shared.exchange()
    assert [job.priority for job in shared.jobs()] == [PREFLIGHTS, KERNELS]
    shared.serve()
    shared.exchange()
    problem.refresh_from_db()
    assert preflight(problem, shared.device, now=timezone.now()).usable


def test_a_job_that_nothing_waits_for_any_more_is_taken_away(shared) -> None:
    run, _ = waiting_run(shared)
    shared.exchange()
    assert len(shared.jobs()) == 1
    run_stop(run=run, user=None, drain=False)
    shared.exchange()
    assert shared.jobs() == []


def test_a_quarantined_device_gets_no_jobs(shared) -> None:
    waiting_run(shared)
    Device.objects.update(state="quarantined")
    assert shared.exchange().waiting == 0 and shared.jobs() == []


def test_a_fault_there_makes_a_new_job_of_the_same_kernel(shared) -> None:
    _run, _worker = waiting_run(shared)
    shared.exchange()
    (first,) = shared.jobs()
    shared.bench = There(LOST)
    shared.serve()
    done = shared.exchange()
    (second,) = shared.jobs()
    assert done.completed == 0 and second.place == first.place and second.token != first.token
    shared.serve()
    assert shared.exchange().completed == 1


def test_a_refused_outcome_is_put_aside_and_the_search_says_why(shared) -> None:
    run, _ = waiting_run(shared)
    shared.exchange()
    shared.serve()
    (outcome,) = (shared.root / "outcomes").iterdir()
    body = json.loads(outcome.read_bytes())
    outcome.write_bytes(json.dumps(body | {"judged_at": "later"}).encode() + b"\n")
    done = shared.exchange()
    assert len(done.refused) == 1 and (shared.root / "refused" / outcome.name).exists()
    assert "signature" in carrying([run])[run.pk].refusal


def test_kernels_that_passed_can_be_put_into_the_folder_and_stay_there(shared) -> None:
    run, _worker = waiting_run(shared, steps=1)
    shared.exchange()
    shared.serve()
    shared.exchange()
    _near, _ = device_enroll(name="near", kind=Device.Kind.INTERPRETER, arch="sm_90")
    call_command(
        "judge_export_jobs", "--run", str(run.pk), "--device", "near", "--priority", "5", "--out", str(shared.root),
        stdout=StringIO(),
    )  # fmt: skip
    shared.exchange()
    (job,) = shared.jobs()
    assert job.priority == 5
    assert read_job(Folder(shared.root).read(job), read_key(key_path("near"))).job.beat is None
    with pytest.raises(CommandError, match="no priority"):
        call_command("judge_export_jobs", "--run", "1", "--priority", "50", "--out", str(shared.root))


def test_the_task_carries_what_the_setting_names_and_survives_a_bad_folder(shared, settings, monkeypatch) -> None:
    sent: list[FollowUp] = []
    monkeypatch.setattr(tasks, "send", sent.extend)
    run, _ = waiting_run(shared)
    tasks.carry_jobs()
    assert not shared.root.exists()
    settings.JUDGE_FOLDER = str(shared.root)
    tasks.carry_jobs()
    tasks.carry_jobs()
    shared.serve()
    tasks.carry_jobs()
    assert FollowUp("advance", run.pk) in sent
    settings.JUDGE_FOLDER = "/proc/nowhere"
    tasks.carry_jobs()


def test_the_command_carries_once_or_until_it_is_stopped(shared, monkeypatch) -> None:
    waiting_run(shared)
    out = StringIO()
    call_command("judge_exchange", str(shared.root), stdout=out)
    assert "1 jobs wait" in out.getvalue()
    with pytest.raises(CommandError, match="JUDGE_FOLDER"):
        call_command("judge_exchange")
    with pytest.raises(CommandError, match="cannot be used"):
        call_command("judge_exchange", "/proc/nowhere")


def test_one_command_searches_on_another_machine_from_preflight_to_its_end(shared, monkeypatch) -> None:
    problem = make_problem("fresh")
    monkeypatch.setattr(run_search.Command, "sleep", staticmethod(lambda seconds: shared.serve()))
    monkeypatch.setattr(run_search, "get_proposer", Worker().proposer)
    with pytest.raises(CommandError, match="serve FOLDER"):
        call_command("run_search", "--problem", problem.slug, "--device", "far", "--steps", "2")
    out = StringIO()
    arguments = ("--problem", problem.slug, "--device", "far", "--steps", "2", "--jobs", str(shared.root))
    call_command("run_search", *arguments, stdout=out, stderr=StringIO())
    assert "2 of 2 steps" in out.getvalue()
    run = Run.objects.get()
    assert run.state == Run.State.FINISHED and Node.objects.filter(run=run).completed().count() == 2


def test_one_command_drives_a_campaign_on_another_machine(shared, monkeypatch) -> None:
    slugs = [make_problem("one").slug, make_problem("two").slug]
    monkeypatch.setattr(campaign.Command, "sleep", staticmethod(lambda seconds: shared.serve()))
    monkeypatch.setattr(campaign, "get_proposer", Worker().proposer)
    arguments = ("--problems", *slugs, "--device", "far", "--steps-each", "1")
    with pytest.raises(CommandError, match="another machine"):
        call_command("campaign", "start", *arguments)
    call_command("campaign", "start", *arguments, "--jobs", str(shared.root), stdout=StringIO(), stderr=StringIO())
    assert set(Run.objects.values_list("state", flat=True)) == {"finished"} and Run.objects.count() == 2
