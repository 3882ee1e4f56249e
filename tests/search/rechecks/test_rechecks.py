"""Kernels judged again: past the cache, both verdicts kept, a failure quarantines, workers may die."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest
from django.utils import timezone

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry, Webhook, WebhookDelivery
from adaexplore_site.notifications.services import best_rows
from judge.bench.processes.stopping import look
from judge.devices.models import Device
from judge.evaluations import services as evaluations
from judge.evaluations.models import Evaluation, Race
from judge.evaluations.services import evaluation_anew, marks_locked, marks_of
from judge.values import JudgeError, SpeedCall, Verdict
from search.fleet.queries import fleet_rows
from search.ledger.models import Spending
from search.rechecks import marking
from search.rechecks import services as rechecks
from search.rechecks.models import Recheck
from search.rechecks.services import recheck_run, rechecks_reap
from search.records.models import Node, Run, RunEvent
from search.records.queries import best_node
from search.replay.check import replay_run
from tests.pages import client_of
from tests.search.fakes import FakeBench, Killed, ScriptedProposer, passed, raced, wrong
from tests.search.fakes import kernel as scripted
from tests.search.kernel_rows import gpu_run, kernel
from tests.search.makers import Worker, make_run
from tests.search.steered import kernel_mark, recheck_ask, run_branch

pytestmark = pytest.mark.django_db
VERIFY, DISPUTE, RACE = Recheck.Kind.VERIFY, Recheck.Kind.DISPUTE, Recheck.Kind.RACE


@pytest.fixture
def run() -> Run:
    """A finished search of two steps, node 1 at 3.0 and node 2 at 2.0."""
    return Worker(bench=FakeBench({0: passed(3.0), 1: passed(2.0)})).run(make_run(steps=2))


def ask(node: Node, kind: Recheck.Kind = VERIFY, **more) -> Recheck:
    follow_ups = recheck_ask(node=node, kind=kind, user=None, **more)
    row = Recheck.objects.get(pk=follow_ups[0].target)
    assert follow_ups[0].queue == row.before.device.queue
    return row


def judged(row: Recheck, bench: FakeBench) -> Recheck:
    for _ in range(2):  # the second delivery finds nothing to do
        recheck_run(recheck_id=row.pk, bench_for=bench)
    return Recheck.objects.get(pk=row.pk)


def test_a_known_verdict_is_judged_anew_with_an_audit_and_the_old_one_stays(run):
    node, bench = run.nodes.get(number=1), FakeBench({0: passed(2.9)})
    row = judged(ask(node), bench)
    assert len(bench.jobs) == 1 and bench.jobs[0].beat is None
    assert (row.state, row.before.speedup, row.evaluation.speedup) == ("done", 3.0, 2.9)
    node.refresh_from_db()
    assert node.evaluation_id == row.before_id and best_node(run.pk).number == 1
    log = RunEvent.objects.filter(run=run, kind__startswith="kernel.").values_list("kind", flat=True)
    assert list(log) == ["kernel.asked", "kernel.judged"]


def test_a_kernel_that_fails_anew_is_quarantined_and_the_next_one_is_the_best(run):
    node = run.nodes.get(number=1)
    row = judged(ask(node), FakeBench({0: wrong()}))
    doubted = Evaluation.objects.get(pk=row.before_id)
    assert (doubted.doubt, doubted.speedup) == ("quarantined", 3.0) and "wrong" in doubted.doubt_reason
    assert best_node(run.pk).number == 2
    act = AuditEntry.objects.get(verb="kernel.quarantine")
    assert act.actor is None and act.after["by"] == "judge"
    assert replay_run(Run.objects.get(pk=run.pk)).first is None


def test_an_equal_kernel_found_later_inherits_the_doubt(run):
    node = run.nodes.get(number=1)
    judged(ask(node), FakeBench({0: wrong()}))
    branch, follow_ups = run_branch(node=node, steps=1, user=None)
    Worker(bench=FakeBench({0: passed(3.0)})).work(follow_ups)
    assert branch.nodes.get(number=1).evaluation.doubt == "quarantined"
    marks = marks_of(problem_id=run.problem_id, device_id=run.device_id, candidate_hash=node.source_hash)
    assert marks.doubt == "quarantined"


def test_a_dispute_needs_a_reason_and_keeps_it_beside_both_verdicts(run):
    node = run.nodes.get(number=2)
    with pytest.raises(ActionRefused, match="Enter why"):
        recheck_ask(node=node, kind=DISPUTE, user=None, note="  ")
    row = judged(ask(node, DISPUTE, note="the  tail is\nnot masked"), FakeBench({0: passed(2.1)}))
    assert (row.note, row.state) == ("the tail is not masked", "done")
    assert not Evaluation.objects.exclude(doubt="").exists()


def test_a_second_press_and_a_repeated_form_ask_once(run):
    node = run.nodes.get(number=1)
    assert recheck_ask(node=node, kind=VERIFY, user=None, key="k")
    assert recheck_ask(node=node, kind=VERIFY, user=None, key="k") == []
    with pytest.raises(ActionRefused, match="already"):
        recheck_ask(node=node, kind=VERIFY, user=None, key="other")
    assert Recheck.objects.count() == 1


def test_what_no_worker_of_ours_judges_is_refused(run):
    node = run.nodes.get(number=1)
    Device.objects.update(state=Device.State.QUARANTINED)
    with pytest.raises(ActionRefused, match="quarantined"):
        ask(node)
    Device.objects.update(state=Device.State.ACTIVE, remote=True)
    with pytest.raises(ActionRefused, match="another machine"):
        ask(node)
    with pytest.raises(ActionRefused, match="no kernel"):
        ask(run.nodes.get(number=0))


def test_a_lost_worker_is_replaced_three_times_and_then_it_has_failed(run):
    row, now = ask(run.nodes.get(number=1)), timezone.now()
    for attempt in range(1, 4):
        Recheck.objects.filter(pk=row.pk).update(
            state="running", attempts=attempt, lease_until=now - timedelta(seconds=1)
        )
        follow_ups = rechecks_reap(now=now)
        assert len(follow_ups) == (attempt < 3)
    row.refresh_from_db()
    assert row.state == "failed" and "lost 3 times" in row.message and rechecks_reap(now=now) == []


def test_a_worker_that_was_taken_for_lost_still_brings_its_verdict(run):
    class Slow(FakeBench):
        def evaluate(self, job, **more):
            Recheck.objects.update(state="queued")
            return super().evaluate(job, **more)

    row = judged(ask(run.nodes.get(number=1)), Slow({0: passed(2.9)}))
    assert (row.state, row.evaluation.speedup) == ("done", 2.9)


def test_a_judge_that_comes_to_no_verdict_changes_nothing(run):
    bench = FakeBench(dict.fromkeys(range(3), JudgeError("out of order")))
    row = judged(ask(run.nodes.get(number=1)), bench)
    assert row.state == "failed" and "out of order" in row.message
    assert not Evaluation.objects.exclude(doubt="").exists()


def pair() -> tuple[Node, Node]:
    search = gpu_run("gelu", steps=9)
    return kernel(search, 2.0, spread=0.1), kernel(search, 2.05, spread=0.1)


def test_a_race_is_measured_side_by_side_and_stored_with_its_interval():
    one, other = pair()
    bench = FakeBench({0: raced(1.05, SpeedCall.FASTER)})
    row = judged(ask(one, RACE, rival=other), bench)
    assert bench.jobs[0].incumbent == other.source and bench.jobs[0].beat == 0.0
    race = Race.objects.get()
    assert (race.call, race.n, row.race_id) == ("faster", 60, race.pk) and race.low < race.ratio < race.high


def test_a_lost_race_is_asked_the_other_way_round_so_that_the_winner_has_won_in_fresh_processes():
    one, other = pair()
    bench = FakeBench({0: raced(0.9, SpeedCall.SLOWER), 1: raced(1.02, SpeedCall.AMBIGUOUS)})
    row = judged(ask(one, RACE, rival=other), bench)
    assert [job.candidate for job in bench.jobs] == [one.source, other.source]
    assert row.race.call == "ambiguous" and Race.objects.get() == row.race


def test_only_two_measured_kernels_of_one_problem_and_device_are_raced(run):
    one, other = pair()
    with pytest.raises(ActionRefused, match="are modelled"):
        recheck_ask(node=run.nodes.get(number=1), rival=run.nodes.get(number=2), kind=RACE, user=None)
    with pytest.raises(ActionRefused, match="same problem"):
        recheck_ask(node=one, rival=kernel(gpu_run("relu"), 2.0), kind=RACE, user=None)
    with pytest.raises(ActionRefused, match="same kernel"):
        recheck_ask(node=one, rival=kernel(other.run, 2.0, source=one.source), kind=RACE, user=None)


def test_a_lost_race_whose_winner_then_fails_decides_nothing_and_the_winner_is_quarantined():
    one, other = pair()
    bench = FakeBench({0: raced(0.9, SpeedCall.SLOWER), 1: wrong()})
    row = judged(ask(one, RACE, rival=other), bench)
    assert (row.state, row.race, Race.objects.count()) == ("done", None, 0)
    assert "There was no race" in row.message and "wrong" in row.message
    assert list(Evaluation.objects.exclude(doubt="").values_list("candidate_hash", flat=True)) == [
        other.source_hash,
        other.source_hash,
    ]


def test_a_worker_that_dies_between_both_halves_of_a_race_leaves_no_winner():
    one, other = pair()
    with pytest.raises(Killed):
        judged(ask(one, RACE, rival=other), Dying({0: raced(0.9, SpeedCall.SLOWER)}))
    assert not Race.objects.exists()


class Dying(FakeBench):
    def evaluate(self, job, **more):
        if self.jobs:
            raise Killed
        return super().evaluate(job, **more)


@pytest.mark.parametrize("verdict", ["refused_problem", "unsupported", "compiled_only", "out_of_memory", "cancelled"])
def test_a_verdict_that_does_not_blame_the_kernel_leaves_it_believed(run, verdict):
    outcome = replace(wrong(), verdict=Verdict(verdict), reason="none", message="none of its fault")
    row = judged(ask(run.nodes.get(number=1)), FakeBench({0: outcome}))
    assert row.state == "failed" and "No verdict on the kernel" in row.message and "none of its fault" in row.message
    assert not Evaluation.objects.exclude(doubt="").exists()


def test_the_device_time_of_both_halves_is_spent_once_and_the_device_is_looked_at_twice(monkeypatch):
    looked = []
    monkeypatch.setattr(rechecks, "device_judged", lambda **given: looked.append(given["evaluation"].pk))
    one, other = pair()
    halves = (raced(0.9, SpeedCall.SLOWER), raced(1.1, SpeedCall.FASTER))
    judged(ask(one, RACE, rival=other), FakeBench({n: replace(one, wall_ms=5000.0) for n, one in enumerate(halves)}))
    spent = Spending.objects.get(run=one.run, kind="recheck")
    assert (spent.device_ms, spent.calls, len(looked)) == (10_000, 0, 2)


def test_what_a_mark_made_the_best_is_told_to_nobody(run):
    Webhook.objects.create(address="https://hook.example/", events=["search.best"], salt="a")
    before = timezone.now()
    for verb in ("kernel.quarantine", "kernel.release"):
        kernel_mark(node=run.nodes.get(number=1), verb=verb, user=None)
    log = RunEvent.objects.filter(run=run, kind="node.best", created_at__gt=before)
    assert [event.payload["because"] for event in log] == ["marked"] * 2
    assert not WebhookDelivery.objects.exists() and not best_rows(before).exists()


def test_a_mark_written_meanwhile_is_kept_by_another_one_and_by_a_new_verdict(run, monkeypatch):
    node = run.nodes.get(number=1)
    mine = Evaluation.objects.filter(pk=node.evaluation_id)

    def late(**kernel):
        mine.update(doubt="flaky", doubt_reason="seen twice")  # somebody held the lock
        return marks_locked(**kernel)

    monkeypatch.setattr(marking, "marks_locked", late)
    kernel_mark(node=node, verb="kernel.retire", user=None, reason="a\x00b")
    assert mine.values_list("doubt", "doubt_reason", "retired").get() == ("flaky", "seen twice", True)
    monkeypatch.setattr(evaluations, "marks_locked", late)
    fresh = evaluation_anew(source=node.source, problem=run.problem, device=run.device, bench=FakeBench())
    assert (fresh.doubt, fresh.retired) == ("flaky", True)


def test_a_kernel_that_a_search_has_twice_is_marked_and_the_replay_agrees():
    def same(task):
        return scripted(replace(task, number=1, seed=1))

    worker = Worker(ScriptedProposer({1: same, 3: same}), FakeBench({0: passed(3.0), 1: passed(2.0)}))
    twice = worker.run(make_run(steps=3))
    kernel_mark(node=twice.nodes.get(number=1), verb="kernel.quarantine", user=None)
    assert RunEvent.objects.filter(run=twice, kind="kernel.marked").count() == 2
    assert replay_run(Run.objects.get(pk=twice.pk)).first is None


def test_one_that_nobody_takes_up_fails_after_a_day_and_its_messages_expire(run):
    (follow_up,) = recheck_ask(node=run.nodes.get(number=1), kind=VERIFY, user=None)
    assert follow_up.expires_s == rechecks.QUEUED_S
    row = Recheck.objects.get()
    assert len(rechecks_reap(now=row.created_at + timedelta(minutes=2))) == 1
    assert rechecks_reap(now=row.created_at + timedelta(hours=25)) == []
    row.refresh_from_db()
    assert row.state == "failed" and "Fleet" in row.message


def test_one_that_waits_is_in_the_queue_of_its_device_and_one_that_runs_is_its_job(run):
    row, now = ask(run.nodes.get(number=1)), timezone.now()
    assert [(one.waiting, one.oldest) for one in fleet_rows([run.device], now=now)] == [(1, row.created_at)]
    Recheck.objects.update(state="running", lease_until=now + timedelta(seconds=9))
    (device,) = fleet_rows([run.device], now=now)
    assert (device.waiting, [job.number for job in device.jobs]) == (0, [1])


def test_one_that_waits_is_stopped_on_the_node_s_page(run):
    row, operator = ask(run.nodes.get(number=1)), client_of("operator")
    address = f"/s/{run.pk}/n/1/recheck/cancel"
    assert address in operator.get(f"/s/{run.pk}/n/1/").content.decode()
    for _ in range(2):
        assert operator.post(address, {"recheck": row.pk, "key": "k"}).status_code == 302
    assert judged(row, FakeBench()).state == "failed"
    act = AuditEntry.objects.get(verb="kernel.recheck.cancel")
    assert act.after == {"number": 1, "recheck": row.pk}
    assert "is not judged again: the request was stopped" in operator.get("/activity/").content.decode()
    assert operator.post(address, {"recheck": row.pk}).status_code == 409


def test_one_that_runs_is_stopped_too_and_says_by_whom(run):
    operator, address = client_of("operator"), f"/s/{run.pk}/n/1/recheck/cancel"

    class Stops(FakeBench):
        def evaluate(self, job, **more):
            html = operator.get(f"/s/{run.pk}/n/1/").content.decode()
            assert "Being judged." in html and address in html
            assert operator.post(address, {"recheck": row.pk}).status_code == 302
            look()
            pytest.fail("its processes work on")

    row = ask(run.nodes.get(number=1))
    evaluations = Evaluation.objects.count()
    done = judged(row, Stops())
    assert (done.state, done.evaluation, done.message) == ("failed", None, "Stopped by some-operator.")
    assert Spending.objects.filter(run=run, kind="recheck", device_ms__gt=0).exists(), "the device was taken"
    assert Evaluation.objects.count() == evaluations and Device.objects.get().faults == 0
