"""A person stops a preflight, whether it waits or runs; what was stopped stays stopped."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from adaexplore_site.actions import registry, runner
from adaexplore_site.core.models import AuditEntry
from judge import tasks
from judge.bench.processes.stopping import LOOK_S, look, stoppable
from judge.devices.models import Device
from judge.problems import admission, views
from judge.problems.admission import admission_queue, preflight_limits, problem_admit
from judge.problems.models import Problem
from judge.problems.preflight import preflight
from judge.values import AdmissionReport, JudgeError, Stopped
from tests.judge.evaluations.test_evaluation_cache import FakeBench
from tests.judge.gpu_rows import gpu
from tests.pages import client_of
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db
GOOD = AdmissionReport("admitted", flops=1.0)
HTMX = {"HX-Request": "true"}


@pytest.fixture
def device() -> Device:
    return make_device()


@pytest.fixture
def problem(device: Device) -> Problem:
    found = make_problem()
    admission_queue(problem=found, device=device)
    return found


@pytest.fixture
def operator() -> Client:
    return client_of("operator")


def stop(client: Client, problem: Problem, **more: Any) -> Any:
    return client.post(f"/problems/{problem.slug}/preflight/stop", {"device": "interpreter", "key": "k"}, **more)


def entry(problem: Problem) -> dict[str, Any]:
    problem.refresh_from_db()
    return problem.report_for("interpreter") or {}


class Stops(FakeBench):
    """While it examines a problem, somebody stops that; `looks` like the real one."""

    def __init__(self, client: Client, problem: Problem, *, looks: bool) -> None:
        super().__init__(GOOD)
        self.client, self.problem, self.looks = client, problem, looks

    def admit(self, problem, *, limits=None, progress=None):
        assert stop(self.client, self.problem).status_code == 302
        if self.looks:
            look()
            pytest.fail("its processes work on")
        return super().admit(problem, limits=limits)


def test_one_that_waits_is_not_run(problem, operator, monkeypatch):
    monkeypatch.setattr(tasks, "bench_for", lambda device: FakeBench())
    assert stop(operator, problem).status_code == 302
    tasks.admit_problem(problem.pk, Device.objects.get().pk)
    assert (entry(problem)["state"], entry(problem)["message"]) == ("stopped", "Stopped by some-operator.")
    act = AuditEntry.objects.get(verb="preflight.stop")
    assert act.after == {"state": "stopped", "device": "interpreter"} and act.object_id == str(problem.pk)
    assert stop(operator, problem).status_code == 302, "the same key again"
    assert AuditEntry.objects.filter(verb="preflight.stop").count() == 1


@pytest.mark.parametrize("looks", [True, False])
def test_one_that_runs_ends_and_its_report_does_not_undo_that(problem, operator, monkeypatch, looks):
    monkeypatch.setattr(tasks, "bench_for", lambda device: Stops(operator, problem, looks=looks))
    tasks.admit_problem(problem.pk, Device.objects.get().pk)
    assert entry(problem)["state"] == "stopped"


def test_undo_asks_for_it_again(problem, operator, monkeypatch):
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr(views.admit_problem, "apply_async", lambda **given: sent.append(given))
    stop(operator, problem)
    act, person = AuditEntry.objects.get(verb="preflight.stop"), AuditEntry.objects.get().actor
    for _ in range(2):
        result = runner.undo(act, user=person, key="again")
        if result.then is not None:
            result.then()
    assert entry(problem)["state"] == "queued" and len(sent) == 1
    row = registry.verb("preflight.stop")
    assert not row.standing(act, row.kind.load([act])).label, "it waits again: nothing to undo"


def test_a_worker_that_died_has_its_preflight_run_by_the_next_one(problem, device, monkeypatch):
    """Its message is delivered again, and the entry still says that it runs."""
    bench = FakeBench(GOOD)
    monkeypatch.setattr(tasks, "bench_for", lambda device: bench)
    admission._store(problem, device, admission._entry("running", problem.created_at, []))
    tasks.admit_problem(problem.pk, device.pk)
    assert entry(problem)["state"] == "admitted"
    tasks.admit_problem(problem.pk, device.pk)
    assert len(bench.jobs) == 1, "it was decided"


def test_of_two_workers_at_one_preflight_the_first_gives_up(problem, device):
    class Late(FakeBench):
        def admit(self, problem, *, limits=None, progress=None):
            problem_admit(problem=Problem.objects.get(), device=device, bench=FakeBench(GOOD))
            return super().admit(problem, limits=limits)

    with pytest.raises(Stopped):
        problem_admit(problem=problem, device=device, bench=Late(AdmissionReport("admitted", flops=2.0)))
    assert entry(problem)["flops"] == 1.0


def test_a_problem_that_is_removed_meanwhile_ends_its_preflight(problem, device, monkeypatch):
    class Removes(FakeBench):
        def admit(self, problem, *, limits=None, progress=None):
            Problem.objects.all().delete()
            look()
            pytest.fail("its processes work on")

    monkeypatch.setattr(tasks, "bench_for", lambda device: Removes())
    tasks.admit_problem(problem.pk, device.pk)
    with pytest.raises(Stopped):
        admission_queue(problem=problem, device=device)


def test_nothing_is_stopped_where_nothing_waits(problem, operator):
    stop(operator, problem)
    answer = operator.post(f"/problems/{problem.slug}/preflight/stop", {"device": "interpreter"})
    assert answer.status_code == 409 and "No preflight of this problem waits or runs" in answer.content.decode()
    answer = operator.post(f"/problems/{problem.slug}/preflight/stop", {"device": "cuda:9"})
    assert answer.status_code == 422


def test_the_panel_offers_it_to_operators_while_it_waits(problem, operator):
    address = f"/problems/{problem.slug}/preflight/stop"
    assert address in operator.get(f"/problems/{problem.slug}/").content.decode()
    assert address not in client_of("viewer").get(f"/problems/{problem.slug}/").content.decode()
    html = stop(operator, problem, headers=HTMX).content.decode()
    assert "Stopped by some-operator." in html and "Check again" in html
    assert address not in html
    assert "every 500ms" not in html
    refused = operator.post(address, {"device": "interpreter"}, headers=HTMX)
    assert refused.status_code == 409 and "No preflight of this problem" in refused.content.decode()


def test_the_fleet_offers_it_beside_what_runs(problem, device, operator):
    admission._store(problem, device, admission._entry("running", timezone.now(), []))
    html = operator.get("/fleet/").content.decode()
    button = f'formaction="/problems/{problem.slug}/preflight/stop" name="device" value="interpreter"'
    assert button in html


def test_a_stopped_preflight_says_why_no_search_starts(problem, device, operator):
    stop(operator, problem)
    check = views.preflight(Problem.objects.get(), device, now=problem.created_at)
    assert not check.usable and "Stopped by some-operator. Check again" in check.why_not


def test_one_call_of_a_problems_code_takes_less_on_the_worker_that_all_uploads_share(device):
    assert preflight_limits(device).stage_s == 20.0 and preflight_limits(device).wall_s == 120
    assert preflight_limits(gpu()).stage_s == 60


def test_the_bench_asks_now_and_then_whether_it_is_still_wanted():
    now, asked = [0.0], []

    def unwanted() -> bool:
        asked.append(now[0])
        return now[0] >= 2 * LOOK_S

    with stoppable(unwanted, lambda: now[0]):
        for _ in range(3):
            look()
        assert asked == [0.0]
        now[0] = LOOK_S
        look()
        now[0] = 2 * LOOK_S
        with pytest.raises(Stopped):
            look()
    look()
    assert len(asked) == 3 and not issubclass(Stopped, JudgeError), "it is not tried again"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("it started processes; remove what starts them", "It started processes; remove what starts them. Upload"),
        ("forward() fails.", "forward() fails. Upload"),
    ],
)
def test_what_a_preflight_said_follows_as_a_sentence_of_its_own(
    problem: Problem, device: Device, message: str, words: str
) -> None:
    entries = {device.name: {"state": "refused", "message": message}}
    Problem.objects.filter(pk=problem.pk).update(admission=entries)
    problem.refresh_from_db()
    said = preflight(problem, device, now=timezone.now()).why_not
    assert f"refused this problem. {words}" in said
