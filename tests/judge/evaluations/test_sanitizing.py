"""A check for races and stray accesses: who asks for it, what the worker does, what the page says."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO

import pytest
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse
from django.utils import timezone
from kombu.exceptions import OperationalError

from adaexplore_site.core.models import AuditEntry
from judge.bench.processes.stopping import look
from judge.devices.models import Device
from judge.evaluations.models import Evaluation, SanitizerCheck
from judge.evaluations.sanitizing import check_queue, check_run
from judge.tasks import sanitize_evaluation
from judge.values import JudgeError, Verdict
from judge.values.sanitizer import CheckState, Findings, SanitizerReport, ToolRun
from tests.judge import gpu_rows
from tests.pages import BACKEND, client_of

pytestmark = pytest.mark.django_db
RACE = Findings(2, {"race": 2}, {"sum_kernel": 2}, ("Error: Race reported between <b>",))
REPORT = SanitizerReport(
    "/usr/bin/compute-sanitizer",
    {"namespaces": "active", "landlock": "partial (2 threads)"},
    (ToolRun("memcheck", CheckState.CLEAN, 3.2), ToolRun("racecheck", CheckState.ERRORS, 9.5, findings=RACE)),
)


@pytest.fixture
def evaluation() -> Evaluation:
    return gpu_rows.judged(gpu_rows.problem(), gpu_rows.gpu(), "pass")


@pytest.fixture
def sent(monkeypatch):
    found: list[dict[str, object]] = []
    monkeypatch.setattr(sanitize_evaluation, "apply_async", lambda **options: found.append(options))
    return found


class Bench:
    """Its children rest; there is no GPU, so no lock."""

    minimum_sandbox = frozenset({"seccomp"})

    def __init__(self) -> None:
        self.rested = 0

    def rest(self) -> None:
        self.rested += 1

    def gpu_lock(self) -> None:
        return None


class Made:
    """A sanitizer that answers `report`, or raises it."""

    def __init__(self, report: object = REPORT) -> None:
        self.report, self.asked = report, []

    def __call__(self, device, **how):
        self.asked.append((device, how))
        return self

    def check(self, problem, source):
        self.asked.append((problem.case, source))
        if callable(self.report):
            self.report()
            look()
        if isinstance(self.report, Exception):
            raise self.report
        return self.report


def person(role: str):
    """A client of the one person in this role."""
    name = f"some-{role}"
    if not User.objects.filter(username=name).exists():
        return client_of(role)
    client = Client()
    client.force_login(User.objects.get(username=name), backend=BACKEND)
    return client


def page(evaluation: Evaluation, role: str = "operator") -> str:
    return person(role).get(reverse("evaluation-detail", args=[evaluation.pk])).content.decode()


def ask(evaluation: Evaluation, role: str = "operator", what: str = "evaluation-sanitize"):
    return person(role).post(reverse(what, args=[evaluation.pk]))


def test_an_operator_asks_once_and_the_device_s_worker_is_told(evaluation, sent):
    for _ in range(2):
        answer = ask(evaluation)
        assert (answer.status_code, answer["Location"]) == (302, reverse("evaluation-detail", args=[evaluation.pk]))
    row = SanitizerCheck.objects.get()
    assert (row.state, row.asked_by.get_username()) == ("queued", "some-operator")
    assert [(one["args"], one["queue"]) for one in sent] == [([row.pk], evaluation.device.queue)]
    assert AuditEntry.objects.get(verb="evaluation.sanitize").after == {"check": row.pk}
    assert "every 5s" in page(evaluation) and "Stop the check" in page(evaluation)


def test_a_viewer_reads_and_asks_for_nothing(evaluation, sent):
    assert "Races and stray accesses" in page(evaluation, "viewer")
    assert reverse("evaluation-sanitize", args=[evaluation.pk]) not in page(evaluation, "viewer")
    assert ask(evaluation, "viewer").status_code == 403 and not SanitizerCheck.objects.exists()


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ({"remote": True}, "another machine"),
        ({"state": Device.State.QUARANTINED}, "quarantined"),
        ({"kind": Device.Kind.INTERPRETER}, "on a GPU"),
    ],
)
def test_what_no_worker_here_can_check_is_refused(evaluation, sent, where, text):
    Device.objects.update(**where)
    answer = ask(evaluation)
    assert answer.status_code == 409 and text in answer.content.decode() and not sent
    assert not SanitizerCheck.objects.exists()


def test_without_a_broker_the_row_says_so(evaluation, monkeypatch):
    def away(**options):
        raise OperationalError("away")

    monkeypatch.setattr(sanitize_evaluation, "apply_async", away)
    assert ask(evaluation).status_code == 409
    assert "broker" in SanitizerCheck.objects.get().message and not SanitizerCheck.objects.get().open


def test_the_worker_checks_the_judged_case_and_keeps_the_report(evaluation):
    check, bench, made = check_queue(evaluation=evaluation), Bench(), Made()
    for _ in range(2):  # a task may be delivered twice
        check_run(check=check, bench_for=lambda device: bench, make=made)
    check.refresh_from_db()
    assert check.state == "done" and check.ended_at is not None and check.report["state"] == "errors"
    assert made.asked == [
        ("cuda:0", {"required": frozenset({"seccomp"}), "lock": None}),
        ("gpu", evaluation.source),
    ]
    assert bench.rested == 1
    evaluation.refresh_from_db()
    assert evaluation.verdict == Verdict.PASS.value


def test_the_page_shows_kinds_kernels_lines_and_layers(evaluation):
    check_run(check=check_queue(evaluation=evaluation), bench_for=lambda device: Bench(), make=Made())
    text = page(evaluation)
    assert "errors found" in text and "reports 2 errors." in text and "reports nothing." in text
    assert "sum_kernel" in text and "partial (2 threads)" in text
    assert "Race reported between &lt;b&gt;" in text and "every 5s" not in text


def test_a_judge_that_cannot_check_leaves_its_reason(evaluation):
    check = check_queue(evaluation=evaluation)
    check_run(check=check, bench_for=lambda device: Bench(), make=Made(JudgeError("it is not installed")))
    check.refresh_from_db()
    assert (check.state, check.message) == ("failed", "it is not installed")
    assert "it is not installed" in page(evaluation)


def test_one_that_waits_or_runs_is_stopped_and_stays_so(evaluation):
    first = check_queue(evaluation=evaluation)
    assert ask(evaluation, what="evaluation-sanitize-stop").status_code == 302
    check_run(check=first, bench_for=lambda device: pytest.fail("it would run"))
    assert ask(evaluation, what="evaluation-sanitize-stop").status_code == 409
    again = check_queue(evaluation=evaluation)

    def stopped() -> None:
        assert ask(evaluation, what="evaluation-sanitize-stop").status_code == 302

    check_run(check=again, bench_for=lambda device: Bench(), make=Made(stopped))
    again.refresh_from_db()
    assert (again.state, again.message, again.report) == ("failed", "Stopped by some-operator.", {})


def test_a_check_whose_worker_is_lost_stands_in_nobody_s_way(evaluation):
    lost = check_queue(evaluation=evaluation)
    assert check_queue(evaluation=evaluation) is None
    SanitizerCheck.objects.update(state="running", asked_at=timezone.now() - timedelta(hours=2))
    assert check_queue(evaluation=evaluation).pk != lost.pk
    lost.refresh_from_db()
    assert (lost.state, lost.message) == ("failed", "The worker ended before the check did.")


def test_a_row_that_is_gone_ends_the_task_quietly():
    sanitize_evaluation(1)


@pytest.mark.parametrize(("path", "disabled"), [(None, True), ("/usr/bin/compute-sanitizer", False)])
def test_where_the_tool_is_missing_the_page_says_what_to_install(evaluation, monkeypatch, path, disabled):
    monkeypatch.setattr("judge.evaluations.sanitizing.sanitizer_path", lambda: path)
    assert ("cuda-sanitizer" in page(evaluation)) is disabled


def test_a_kernel_of_the_interpreter_is_offered_no_check(evaluation):
    Device.objects.update(kind=Device.Kind.INTERPRETER)
    assert "Races and stray accesses" not in page(evaluation)


def test_the_command_prints_each_tool_and_fails_on_an_error(evaluation, monkeypatch):
    command = "judge.management.commands.judge_sanitize"
    monkeypatch.setattr(f"{command}.bench_for", lambda device: Bench())
    monkeypatch.setattr("judge.evaluations.sanitizing.check_run.__kwdefaults__", {"make": Made()}, raising=False)
    out = StringIO()
    with pytest.raises(SystemExit, match="1"):
        call_command("judge_sanitize", str(evaluation.pk), stdout=out)
    assert "memcheck" in out.getvalue() and "race: 2" in out.getvalue() and "Race reported" in out.getvalue()
    with pytest.raises(CommandError, match="no evaluation"):
        call_command("judge_sanitize", "999")
