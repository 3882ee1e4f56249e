"""Sealed cases: derived at a preflight, told to nobody, opened once, replaced then; verdicts remember their set."""

from __future__ import annotations

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command

from adaexplore_site.core.audit import ActionRefused
from adaexplore_site.core.models import AuditEntry
from judge import tasks
from judge.devices.models import Device
from judge.evaluations.services import evaluation_run, evaluation_store
from judge.management.commands import seal_problems
from judge.problems import sealing, views
from judge.problems.admission import problem_admit
from judge.problems.models import Problem
from judge.problems.sealing import problem_seal, sealed_open, sealing_due
from judge.values import AdmissionReport, Audit, JudgeError, Limits, Outcome, SealedCase, Verdict
from tests.judge.gpu_rows import CANDIDATE, gpu, passed, report, sealed
from tests.judge.gpu_rows import problem as searched
from tests.pages import client_of
from tests.search.fakes import FakeBench
from tests.search.makers import make_device, make_problem

pytestmark = pytest.mark.django_db
SECRET = 7919
FOUND = (
    SealedCase("derived 1", {"ROWS": SECRET}, derived=True),
    SealedCase("derived 2", {}, derived=True, change="strided"),
)


class SealingBench(FakeBench):
    """Derives FOUND; keeps the seeds it was given."""

    def __init__(self, *answers: object) -> None:
        super().__init__()
        self.seeds: list[str] = []
        self.answers = list(answers)

    def admit(self, problem, *, limits=None, progress=None):
        return AdmissionReport("admitted", case="gpu")

    def seal(self, problem, *, seed: str, limits: Limits | None = None):
        assert not problem.sealed
        self.seeds.append(seed)
        answer = self.answers.pop(0) if self.answers else FOUND
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_preflight_derives_them_and_tells_number_and_kinds_alone():
    row, device, bench = make_problem(), make_device(), SealingBench()
    found = problem_admit(problem=row, device=device, bench=bench)
    secret = row.sealed_sets.get()
    assert secret.as_cases() == FOUND and secret.seed == bench.seeds[0] and secret.case == "gpu"
    assert found.stages[-1].detail == "set 1: 1 size, 1 stride"
    row.refresh_from_db()
    told = str(row.admission)
    assert "1 size" in told and str(SECRET) not in told and secret.seed not in told


def test_each_set_has_a_seed_of_its_own_and_none_is_derived_twice():
    row, bench = make_problem(), SealingBench()
    assert problem_seal(problem=row, case=None, bench=bench) and not problem_seal(problem=row, case=None, bench=bench)
    assert problem_seal(problem=row, case="gpu", bench=bench).number == 2  # other sizes: other cases
    assert len(set(bench.seeds)) == 2 and row.sealed_set("gpu").number == 2 and row.sealed_set(None).number == 1


def test_a_set_of_older_rules_is_replaced_at_the_next_preflight(monkeypatch):
    row, bench = make_problem(), SealingBench()
    problem_seal(problem=row, case=None, bench=bench)
    monkeypatch.setattr(sealing, "RULES", "next")
    assert sealing_due(row, None) and problem_seal(problem=row, case=None, bench=bench).number == 2


def test_of_two_workers_that_derive_at_once_one_set_is_kept():
    row = make_problem()

    class Slow(SealingBench):
        def seal(self, problem, **given):
            problem_seal(problem=row, case=None, bench=SealingBench())  # the other one, meanwhile
            return super().seal(problem, **given)

    assert problem_seal(problem=row, case=None, bench=Slow()) is None and row.sealed_sets.count() == 1


def test_a_problem_that_is_deleted_meanwhile_gets_none():
    row = make_problem()

    class Deleting(SealingBench):
        def seal(self, problem, **given):
            Problem.objects.all().delete()
            return super().seal(problem, **given)

    assert problem_seal(problem=row, case=None, bench=Deleting()) is None and not Problem.objects.exists()


def test_a_judge_that_cannot_derive_them_does_not_stop_the_preflight():
    row, device = make_problem(), make_device()
    bench = SealingBench(*[JudgeError("a child said seven-nine")] * 3)
    found = problem_admit(problem=row, device=device, bench=bench)
    assert found.state == "admitted" and found.stages[-1].state == "warned" and "seven-nine" not in str(row.admission)
    assert not row.sealed_sets.exists()  # the next preflight tries again


def test_a_reference_that_takes_no_others_is_not_asked_again():
    row = make_problem()
    assert problem_seal(problem=row, case=None, bench=SealingBench(())).cases == []
    assert not sealing_due(row, None) and not sealing.sets_to_open(row)


def test_tasks_that_an_adapt_run_composed_get_none():
    row, device, bench = make_problem(), make_device(), SealingBench()
    Problem.objects.filter(pk=row.pk).update(origin=Problem.Origin.SYNTHETIC)
    row.refresh_from_db()
    problem_admit(problem=row, device=device, bench=bench)
    assert not bench.seeds


def test_an_evaluation_takes_the_set_in_force_and_remembers_it_when_audited():
    row, device = make_problem(), make_device()
    old, new = sealed(row), sealed(row)
    other = sealed(row, case="gpu")
    bench = FakeBench()
    judged, _ = evaluation_run(problem=row, device=device, source=CANDIDATE, bench=bench)
    assert bench.jobs[0].problem.sealed == new.as_cases() and judged.audit == Audit.PASSED
    assert judged.sealed_set == new and old.evaluations.count() == other.evaluations.count() == 0
    unseen = evaluation_store(
        problem=row,
        device=device,
        source="x",
        toolchain="t",
        outcome=Outcome(Verdict.WRONG, stage="correctness", reason="value.mismatch"),
        sealed_set=new,
    )
    assert unseen.sealed_set is None


@pytest.fixture
def queued(monkeypatch) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    monkeypatch.setattr(views.seal_problem, "apply_async", lambda args, **_: found.append(tuple(args)))
    return found


def test_opening_asks_first_shows_the_contents_once_and_has_others_derived(queued):
    device = gpu()
    row = searched(admission={device.name: report()})
    opened = sealed(row)
    ada = client_of("admin", "ada")
    where = f"/problems/{row.slug}/unseal"
    asked = ada.post(where, {"key": "k"}).content.decode()
    assert "Open the sealed cases?" in asked and "4097" not in asked
    opened.refresh_from_db()
    assert opened.opened_at is None and not queued
    shown = ada.post(where, {"key": "k", "sure": "1"})
    assert "ROWS = 4097" in shown.content.decode() and "no-store" in shown["Cache-Control"]
    opened.refresh_from_db()
    assert opened.opened_by == User.objects.get(username="ada") and queued == [(row.pk, device.pk)]
    for key in ("k", "k2"):
        again = ada.post(where, {"key": key, "sure": "1"}, follow=True)
        assert "4097" not in again.content.decode()
    scripted = ada.post(where, {"key": "k", "sure": "1"}, headers={"HX-Request": "true"})
    assert scripted["HX-Redirect"] == f"/problems/{row.slug}/" and "4097" not in scripted.content.decode()
    entry = AuditEntry.objects.get(verb="problem.unseal")
    assert entry.after == {"sets": [1], "cases": 2} and entry.actor == opened.opened_by
    assert "by <bdi>ada</bdi>" in ada.get(f"/problems/{row.slug}/").content.decode()


def test_the_api_gives_the_contents_in_its_first_answer_alone(queued):
    from tests.site.api.test_api_acts import Program

    row = make_problem()
    sealed(row)
    robot = Program("admin", name="root")
    assert robot.act(f"problem.unseal/{row.slug}", {}).status_code == 409
    first = robot.act(f"problem.unseal/{row.slug}", {"sure": True}, key="k").json()
    assert "4097" in first["cases"]
    again = robot.act(f"problem.unseal/{row.slug}", {"sure": True}, key="k").json()
    assert again["repeated"] and "4097" not in str(again)
    assert again["at"] == f"/problems/{row.slug}/"


def test_an_opened_set_is_used_until_another_is_derived_in_its_place(monkeypatch):
    row, device = make_problem(), make_device()
    first = sealed(row)
    sealed_open(problem=row, user=None)
    assert row.sealed_set(None) == first and sealing_due(row, None)
    monkeypatch.setattr(tasks, "bench_for", lambda device: SealingBench())
    tasks.seal_problem(row.pk, device.pk)
    assert row.sealed_set(None).number == 2 and not sealing_due(row, None)
    with pytest.raises(ActionRefused, match="nobody has opened"):
        row.sealed_sets.filter(number=2).update(cases=[])
        sealed_open(problem=row, user=None)
    tasks.seal_problem(0, device.pk)  # a row that is gone


def test_a_verdict_says_whether_its_set_was_known(queued):
    device = gpu()
    row = searched(admission={device.name: report()})
    secret = sealed(row)
    before = passed(row, device, 100.0)
    before.__class__.objects.filter(pk=before.pk).update(sealed_set=secret)
    sealed_open(problem=row, user=None)
    after = passed(row, device, 90.0)
    after.__class__.objects.filter(pk=after.pk).update(sealed_set=secret)
    viewer = client_of("viewer")
    pages = [viewer.get(f"/evaluations/{one.pk}/").content.decode() for one in (before, after)]
    assert "Sealed cases: set 1. The set was opened after this audit." in pages[0]
    assert "The set had been opened before this audit." in pages[1]


def test_no_page_and_no_answer_of_the_api_holds_them(queued):
    device = gpu()
    row = searched(admission={device.name: report()})
    secret = sealed(row)
    judged = passed(row, device, 100.0)
    judged.__class__.objects.update(sealed_set=secret)
    ada = client_of("admin")
    pages = [f"/problems/{row.slug}/", "/problems/", f"/evaluations/{judged.pk}/", "/kernels/", "/activity/"]
    pages += [f"/api/v1/problems/{row.slug}", "/api/v1/problems", f"/evaluations/{judged.pk}/samples.json"]
    pages += [f"/new?problem={row.slug}", f"/problems/{row.slug}/preflight?device={device.name}", "/campaigns/new"]
    for page in pages:
        text = ada.get(page, follow=True).content.decode()
        assert "4097" not in text and secret.seed not in text and "strided" not in text, page


def test_only_devices_that_passed_the_preflight_derive_them_anew(queued):
    device = gpu()
    row = searched(admission={device.name: report()})
    Device.objects.create(name="cuda:1", kind="cuda", title="G", arch="sm_90")
    views.sealing_start(row)
    assert queued == [(row.pk, device.pk)]
    sealed(row, case=report()["case"] or "")
    views.sealing_start(row)
    assert len(queued) == 1


def test_the_command_seals_what_is_due_and_names_what_failed(monkeypatch, capsys):
    make_device()
    row, other = make_problem("a"), make_problem("b")
    monkeypatch.setattr(seal_problems, "devices_sync", lambda: None)
    monkeypatch.setattr(seal_problems, "bench_for", lambda device: SealingBench())
    call_command("seal_problems", "a")
    assert row.sealed_sets.count() == 1 and not other.sealed_sets.exists()
    call_command("seal_problems")
    said = capsys.readouterr().out
    assert row.sealed_sets.count() == other.sealed_sets.count() == 1 and "1 of 2 problems are due" in said
    assert str(SECRET) not in said and "b: 1 size, 1 stride" in said
    with pytest.raises(CommandError, match="no problem c"):
        call_command("seal_problems", "c")
    sealed_open(problem=row, user=None)
    monkeypatch.setattr(seal_problems, "bench_for", lambda device: SealingBench(*[JudgeError("no child")] * 3))
    with pytest.raises(CommandError, match="No sealed cases for a"):
        call_command("seal_problems")
