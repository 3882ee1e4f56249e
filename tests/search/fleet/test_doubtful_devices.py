"""A device whose self-test missed something makes no best; one that is old or untried says so beside every speedup."""

from __future__ import annotations

import dataclasses
from datetime import timedelta

import pytest
from django.urls import reverse
from django.utils import timezone

from judge.devices.models import Device
from judge.evaluations.models import Evaluation
from judge.selftest.results import State
from judge.selftest.trust import doubt_about
from judge.values import Audit
from search.engine.devices import device_quarantine
from search.records.queries import best_node
from tests.judge.gpu_rows import gpu, passed, problem
from tests.judge.selftest_makers import stored
from tests.pages import client_of
from tests.search.fakes import FakeBench
from tests.search.makers import Worker, make_device, make_run, told

pytestmark = pytest.mark.django_db


class AuditingBench(FakeBench):
    """Audits as the real one does: what is faster than the bar."""

    def evaluate(self, job, **options):
        found = super().evaluate(job, **options)
        beats = job.beat is None or found.speedup.value > job.beat
        return found if beats else dataclasses.replace(found, audit=Audit.NONE)


COMMAND = "manage.py judge_selftest --device cuda:0"


def doubt(device: Device, *, days: int = 0):
    return doubt_about(device, now=timezone.now() + timedelta(days=days))


def pages(device: Device) -> dict[str, str]:
    """The pages that show a speedup of the device, by name."""
    evaluation = passed(problem(), device, 243.7)
    run = make_run(problem=evaluation.problem, device=device)
    run.nodes.create(
        number=1, parent=run.nodes.get(number=0), kind="large", state="told", told_order=1, evaluation=evaluation
    )
    paths = {
        "run": reverse("run-detail", args=[run.pk]),
        "node": reverse("node-detail", args=[run.pk, 1]),
        "evaluation": reverse("evaluation-detail", args=[evaluation.pk]),
        "problem": reverse("problem-detail", args=[evaluation.problem.slug]),
        "device": reverse("device-detail", args=[device.pk]),
    }
    client = client_of("viewer")
    return {name: client.get(path).content.decode() for name, path in paths.items()}


def test_a_fresh_install_is_labelled_and_blocks_nothing():
    device = gpu()
    assert doubt(device).level == "note"
    for name, html in pages(device).items():
        assert "not self-tested</span>" in html and COMMAND in html and "notice-error doubt" not in html, name


def test_a_believed_device_says_nothing():
    device = gpu()
    stored(device, toolchain="torch 2.11.0 triton 3.6.0 sm_90")
    assert doubt(device) is None
    assert not any('class="notice doubt' in html for html in pages(device).values())


def test_an_old_self_test_and_one_of_another_toolchain_are_a_warning():
    device = gpu()
    stored(device, toolchain="torch 2.11.0 triton 3.6.0 sm_90")
    assert doubt(device, days=8).level == "warning" and "8 days old" in doubt(device, days=8).text
    Evaluation.objects.filter(pk=passed(problem("other"), device, 99.0).pk).update(toolchain="torch 2.12.0")
    found = doubt(device)
    assert found.level == "warning" and "torch 2.12.0" in found.text


def test_a_missed_attack_is_an_error_everywhere_with_what_to_do():
    device = gpu()
    stored(device, State.MISSED)
    for name, html in pages(device).items():
        assert "notice doubt notice-error" in html and COMMAND in html, name


def test_a_device_whose_times_are_modelled_says_only_what_was_missed():
    device = make_device()
    assert doubt(device) is None
    stored(device, days=30)
    assert doubt(device) is None
    stored(device, State.MISSED)
    assert doubt(device).level == "error"


def test_another_machine_s_device_is_told_without_a_command_of_ours():
    found = doubt(gpu(remote=True))
    assert found.level == "note" and found.command == ""


def test_what_a_red_device_says_is_never_audited_and_so_never_a_best():
    run, worker = make_run(steps=3), Worker(bench=AuditingBench())
    stored(run.device, State.MISSED)
    run = worker.run(run)
    assert len(told(run)) == 3 and best_node(run.pk) is None
    assert {job.beat for job in worker.bench.jobs} == {float("inf")}


def test_once_it_is_believed_again_an_equal_kernel_is_judged_again_and_may_be_the_best():
    worker = Worker(bench=AuditingBench())
    first = make_run(steps=2, seed=3)
    red = stored(first.device, State.MISSED)
    worker.run(first)
    judged = len(worker.bench.jobs)
    stored(first.device)
    again = worker.run(make_run(steps=2, seed=3))
    assert red.red and len(worker.bench.jobs) > judged and best_node(again.pk) is not None


def test_quarantine_is_said_beside_the_doubt():
    device = gpu()
    device_quarantine(device=device, cause=Device.Cause.NOISE, reason="it rattles")
    html = client_of("viewer").get(reverse("device-detail", args=[device.pk])).content.decode()
    assert "it rattles" in html and "No self-test has been run on" in html
