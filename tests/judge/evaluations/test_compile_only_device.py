"""The device that only compiles: it owns what judge_compile keeps, is seen like any other, and judges nothing."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse

from adaexplore_site.core.audit import ActionRefused
from judge.devices.models import Device
from judge.devices.services import (
    DeviceMissing,
    compile_device,
    device_get,
    devices_sync,
    judging_devices,
    served_devices,
)
from judge.evaluations.models import Evaluation
from judge.selftest.trust import doubt_about
from search.fleet.services import device_check_ask, device_state_set
from tests.judge.bench_problems import PROBLEM, TRITON
from tests.judge.gpu_rows import judged, problem
from tests.pages import client_of
from tests.search.makers import make_run

pytestmark = pytest.mark.django_db


@pytest.fixture
def device() -> Device:
    return compile_device(target="sm_90")


def get(name: str, *args: object, role: str = "operator") -> str:
    answer = client_of(role, f"{role}-{name}").get(reverse(name, args=args))
    assert answer.status_code == 200
    return answer.content.decode()


def test_there_is_one_for_the_target_and_no_worker_serves_it(settings):
    settings.JUDGE_TARGET = "sm_89"
    for _ in range(2):
        devices_sync(lister=list)
    (row,) = Device.objects.filter(kind="compile")
    assert (row.name, row.arch, row.basis, row.judges, row.measures) == ("compile:sm_89", "sm_89", None, False, False)
    assert row not in served_devices() and row not in judging_devices()


def test_an_unknown_target_makes_none(settings):
    settings.JUDGE_TARGET = "sm_12345"
    devices_sync(lister=list)
    assert not Device.objects.filter(kind="compile").exists()


def test_nothing_can_be_searched_judged_drained_or_checked_there(device):
    with pytest.raises(DeviceMissing, match="only compiles"):
        device_get(name=device.name)
    with pytest.raises(ActionRefused, match="takes no new searches"):
        make_run(device=device)
    with pytest.raises(ActionRefused, match="only compiles"):
        device_state_set(device=device, state=Device.State.DRAINING, user=None)
    with pytest.raises(ActionRefused, match="cannot be checked"):
        device_check_ask(device=device, user=None)
    assert doubt_about(device, now=device.seen_at) is None


def test_its_evaluations_are_seen_like_any_device_s(device):
    row = judged(problem(), device, "compiled_only", stage="compile", reason="compile.done", message="")
    judged(problem("other"), device, "compile_failed", stage="compile", reason="compile.resources")
    html = get("device-list")
    assert "compile:sm_90" in html and "Compiles only" in html
    html = get("device-detail", device.pk)
    assert "compiled only" in html and "compile.resources" in html and "and not run" in html
    assert "Quarantine</button>" not in html and "noise floor" not in html and "Self-test" not in html
    html = get("evaluation-detail", row.pk)
    assert "Compiled only." in html and "but not run" in html
    assert client_of("viewer").get(reverse("self-test-detail", args=[device.name])).status_code == 404


@pytest.mark.bench
@pytest.mark.usefixtures("compiler_lent")
def test_the_command_keeps_what_came_of_a_kernel_once(tmp_path: Path, settings):
    settings.JUDGE_TARGET = "sm_90"
    row = problem("mine", source=PROBLEM, admission={})
    kernel = tmp_path / "kernel.py"
    kernel.write_text(TRITON)
    for _ in range(2):
        out = StringIO()
        call_command("judge_compile", str(kernel), "--store", "mine", stdout=out)
        evaluation = Evaluation.objects.get()
        assert (
            f"kept as evaluation {evaluation.pk} of compile:sm_90, plain constants: /evaluations/{evaluation.pk}/"
            in out.getvalue()
        )
    assert (evaluation.problem, evaluation.verdict, evaluation.speedup) == (row, "compiled_only", None)
    assert evaluation.report["kernels"] and evaluation.toolchain.endswith("sm_90")
    assert evaluation.report["kernels"][0]["name"] in get("evaluation-detail", evaluation.pk)


@pytest.mark.bench
@pytest.mark.usefixtures("compiler_lent")
def test_the_command_compiles_and_keeps_the_case_that_gpus_judge(tmp_path: Path, settings):
    settings.JUDGE_TARGET = "sm_90"
    cases = "\nCASES = {'gpu': {'ROWS': 4096}, 'interpreter': {'ROWS': 8}}\n\ndef get_cases():\n    return CASES\n"
    source = PROBLEM.replace("SIZE = 64", "SIZE = 64\nROWS = 16").replace("randn(16", "randn(ROWS") + cases
    report = {"state": "admitted", "case": "interpreter", "cases": ["gpu", "interpreter"]}
    row = problem("mine", source=source, admission={"interpreter": report})
    (tmp_path / "kernel.py").write_text(TRITON)

    def compiled() -> str:
        out = StringIO()
        call_command("judge_compile", str(tmp_path / "kernel.py"), "--store", "mine", stdout=out)
        return out.getvalue()

    text, kept = compiled(), Evaluation.objects.get()
    assert text.startswith("kernel.py for sm_90, case gpu: compiled_only")
    assert f"kept as evaluation {kept.pk} of compile:sm_90, case gpu" in text
    assert kept.report["case"] == "gpu" and kept.report["kernels"][0]["grid"][0] == 4096
    assert '<dt>Case</dt><dd translate="no">gpu</dd>' in get("evaluation-detail", kept.pk)
    Evaluation.objects.update(report={**kept.report, "case": None})
    assert f"kept as evaluation {kept.pk} " not in compiled() and Evaluation.objects.count() == 2
    row.admission = {}
    row.save()
    with pytest.raises(CommandError, match="no preflight has read them"):
        compiled()


def test_what_cannot_be_kept_is_said_before_anything_is_compiled(tmp_path: Path):
    (tmp_path / "kernel.py").write_text(TRITON)
    with pytest.raises(CommandError, match="no problem 'gone'"):
        call_command("judge_compile", str(tmp_path / "kernel.py"), "--store", "gone")
    with pytest.raises(CommandError, match="leave out --problem and --case"):
        call_command("judge_compile", str(tmp_path / "kernel.py"), "--store", "gone", "--case", "gpu")
