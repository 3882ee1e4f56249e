"""A problem that breaks its bounds again and again is quarantined, and nobody else: nothing of it runs until a person
releases it, and then what waited goes on."""

from __future__ import annotations

from typing import Any

import pytest

from adaexplore_site.core.models import AuditEntry
from judge import tasks
from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.problems.admission import problem_admit
from judge.problems.models import Problem
from judge.problems.preflight import preflight
from judge.problems.quarantine import STRIKE, strikes_count
from judge.values import AdmissionReport, JudgeError, Outcome, UnclearFault, Verdict
from search.engine.steps import step_judge
from search.records.models import Node, Run
from search.records.queries import events_since
from tests.judge.evaluations.test_evaluation_cache import FakeBench as Admits
from tests.pages import client_of
from tests.search.fakes import FakeBench
from tests.search.makers import Worker, kinds, make_device, make_problem, make_run, told

pytestmark = pytest.mark.django_db
STRIKES = 3
BREAKS = Outcome(Verdict.REFUSED_PROBLEM, "smoke", reason="problem.breaks_off", message="it came to no verdict")


def quarantined(**changes: Any) -> Problem:
    row = make_problem()
    Problem.objects.filter(pk=row.pk).update(quarantined_at=row.created_at, quarantine_reason="it hangs", **changes)
    return Problem.objects.get(pk=row.pk)


def ended(*breaks: bool) -> int | None:
    """Which of these ends brought the quarantine; None: none of them."""
    row = make_problem()
    Problem.objects.update(strikes=0, quarantined_at=None)
    for number, one in enumerate(breaks, start=1):
        if strikes_count(row, reason="problem.timeout" if one else "", message="no end"):
            return number
    return None


def test_three_times_in_a_row_are_too_many_and_so_is_every_other_time():
    assert ended(True, True, True) == 3
    assert ended(*[True, False] * 10) == 7
    assert ended(*[True, *[False] * 5] * 20) is None, "a slow machine now and then"
    assert ended(*[False] * 20, True, True, True) == 23, "good ends are not saved up"


def test_a_quarantine_by_the_judge_is_written_once_with_its_reason():
    assert ended(True, True, True)
    row = Problem.objects.get()
    assert row.quarantine_reason.endswith("The last time: no end")
    (act,) = AuditEntry.objects.filter(verb="problem.quarantine")
    assert act.actor is None and act.object_id == str(row.pk)
    assert not strikes_count(row, reason="problem.timeout", message="no end")
    assert not strikes_count(row, reason="problem.memory", message=""), "an error is no broken bound"


def test_a_search_on_it_waits_and_the_device_stays_in_use():
    worker = Worker(bench=FakeBench(dict.fromkeys(range(STRIKES), BREAKS)))
    run = worker.run(make_run(steps=6))
    assert Device.objects.get().state == "active" and Device.objects.get().faults == 0
    assert len(told(run)) == STRIKES and run.state == "running"
    assert "problem.quarantined" in kinds(run) and Problem.objects.get().quarantined
    run.nodes.filter(state="judging").update(attempts=5)  # as many as there are
    for _ in range(2):
        sent = worker.later()
        assert "judge_node" not in {follow_up.task for follow_up in sent}
        worker.work(sent)
    assert len(told(run)) == STRIKES and run.nodes.filter(state="judging").count() == 1, "it is not given up"
    operator = client_of("operator")
    page = operator.get(f"/s/{run.pk}/").content.decode()
    assert "The problem is quarantined" in page and "It breaks its bounds" in page
    operator.post(f"/problems/{run.problem.slug}/state", {"state": "released"})
    worker.work(worker.later(0))
    assert Run.objects.get().state == "finished" and len(told(run)) == 6
    assert "problem.released" in kinds(run) and Problem.objects.get().strikes == 0


@pytest.mark.parametrize(
    ("error", "faults", "strikes"), [(JudgeError("no child"), 1, 0), (UnclearFault("no verdict"), 0, 1)]
)
def test_what_a_known_problem_cleared_the_device_of_is_not_the_devices_fault(error, faults, strikes):
    tries = 3 if faults else 1  # the bench has tried the other one itself
    bench = FakeBench(dict.fromkeys(range(tries), error))
    Worker(bench=bench).run(make_run(steps=1))
    assert (Evaluation.objects.get().verdict, len(bench.jobs)) == ("lost", tries)
    assert (Device.objects.get().faults, Problem.objects.get().strikes) == (faults, strikes * STRIKE)


def test_preflights_that_break_a_bound_count_too():
    row, device = make_problem(), make_device()
    broken = AdmissionReport("refused", reason="problem.forges", message="it sent a verdict of its own")
    for _ in range(STRIKES):
        problem_admit(problem=row, device=device, bench=Admits(broken))
    row.refresh_from_db()
    assert row.quarantined
    other = make_problem("other")
    for reason in ("problem.raises", "problem.timeout") * STRIKES:
        problem_admit(problem=other, device=device, bench=Admits(AdmissionReport("refused", reason=reason)))
    other.refresh_from_db()
    assert not other.quarantined, "no broken bound, or too slow for this device alone"


def test_the_searches_on_a_problem_that_a_preflight_quarantines_say_why_they_wait():
    run = make_run(steps=1)
    broken = AdmissionReport("refused", reason="problem.forges", message="it sent a verdict of its own")
    for _ in range(STRIKES):
        problem_admit(problem=run.problem, device=make_device(), bench=Admits(broken))
    assert kinds(run).count("problem.quarantined") == 1
    told = [event.said for event in events_since(run, 0) if event.kind == "problem.quarantined"]
    assert "it sent a verdict of its own" in told[0].reason


def test_nothing_of_it_is_run(monkeypatch):
    run, device = make_run(steps=1), make_device()
    row = quarantined()
    monkeypatch.setattr(tasks, "bench_for", lambda device: pytest.fail("it would be run"))
    tasks.admit_problem(row.pk, device.pk)
    row.refresh_from_db()
    report = row.report_for(device.name)
    assert report["state"] == "failed", "it no longer waits, and can be asked for again"
    assert "quarantined" in report["message"]
    check = preflight(row, device, now=row.created_at)
    assert check.barred and not check.usable and "it hangs" in check.why_not
    root = run.nodes.get(number=0)
    waits = {"state": "judging", "lease_owner": "queue", "source": "x"}
    node = Node.objects.create(run=run, number=1, parent=root, kind="large", **waits)
    assert step_judge(node_id=node.pk, bench_for=lambda device: pytest.fail("it would be judged")) == []


def test_people_quarantine_and_release_it_and_take_that_back():
    row, operator = make_problem(), client_of("operator")
    address, page = f"/problems/{row.slug}/state", f"/problems/{row.slug}/"
    operator.post(address, {"state": "quarantined", "reason": "it mines coins"})
    row.refresh_from_db()
    assert row.quarantined and row.quarantine_reason == "it mines coins"
    html = operator.get(page).content.decode()
    assert "This problem is quarantined" in html and "it mines coins" in html and ">Release<" in html
    assert "Check again" not in html and "Check now" not in html
    assert ">Release<" not in client_of("viewer").get(page).content.decode()
    operator.post(address, {"state": "released"})
    row.refresh_from_db()
    assert not row.quarantined
    released = AuditEntry.objects.get(verb="problem.release")
    assert operator.post(f"/activity/{released.pk}/undo").status_code == 302
    row.refresh_from_db()
    assert row.quarantined and row.quarantine_reason == "it mines coins"
