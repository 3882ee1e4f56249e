"""What the doctor says of a machine that judges wrongly for its own reasons: temporary folder, GPU files, kernel."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from judge.doctor import __main__ as command
from judge.doctor import examine
from judge.doctor.report import DeviceReport, Fact, Report
from judge.values import JudgeError


@pytest.fixture
def as_root(monkeypatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)


def test_a_temporary_folder_below_a_closed_one_is_named_with_what_to_do(as_root, tmp_path) -> None:
    (tmp_path / "closed" / "tmp").mkdir(parents=True)
    (tmp_path / "closed").chmod(0o600)
    found = examine.temp_folder("", tmp_path / "closed" / "tmp")
    assert found.state == "bad" and "children of root cannot enter" in found.value and "711" in found.advice
    assert examine.temp_folder("", Path("/tmp")).state == "ok"


def test_another_folder_than_the_one_asked_for_is_a_note_with_the_reason(monkeypatch, tmp_path) -> None:
    monkeypatch.setattr(examine, "TEMP_BYTES", 0)
    found = examine.temp_folder(str(tmp_path), Path("/tmp"))
    assert found.state == "note" and "children of root cannot enter" in found.value and str(tmp_path) in found.advice
    monkeypatch.setattr(examine.os, "access", lambda *_, **__: False)
    assert "this account cannot write" in examine.temp_folder(str(tmp_path), Path("/tmp")).value
    assert examine.temp_folder("/tmp/", Path("/tmp")).state == "ok"


def test_a_temporary_folder_where_nothing_can_be_loaded_is_named(monkeypatch) -> None:
    monkeypatch.setattr(examine.os, "statvfs", lambda path: SimpleNamespace(f_flag=os.ST_NOEXEC))
    found = examine.temp_folder("", Path("/tmp"))
    assert found.state == "bad" and "noexec" in found.value and "TMPDIR" in found.advice


def test_a_gpu_s_files_that_are_absent_or_another_group_s_are_named(monkeypatch, tmp_path) -> None:
    for name in ("nvidia0", "nvidiactl"):
        (tmp_path / name).symlink_to("/dev/null")
    (absent,) = examine.device_files(tmp_path)
    assert absent.value == f"{tmp_path}/nvidia-uvm: absent" and "nvidia-modprobe" in absent.advice
    (tmp_path / "nvidia-uvm").symlink_to("/dev/null")
    assert list(examine.device_files(tmp_path)) == []
    monkeypatch.setattr(examine, "_usable", lambda path: path.name != "nvidia0")
    (closed,) = examine.device_files(tmp_path)
    assert closed.value.startswith(f"{tmp_path}/nvidia0: ") and Path("/dev/null").group() in closed.advice


def kernel(monkeypatch, answer) -> Fact:
    def fault_of(bench):
        if isinstance(answer, Exception):
            raise answer
        return answer

    monkeypatch.setattr(examine, "fault_of", fault_of)
    return examine._known_kernel(SimpleNamespace())


def test_a_known_kernel_that_does_not_pass_is_a_fault_of_the_device(monkeypatch) -> None:
    assert kernel(monkeypatch, "").state == "ok"
    for answer in ("it ended crashed", JudgeError("it ended crashed")):
        found = kernel(monkeypatch, answer)
        assert (found.value, found.state) == ("it ended crashed", "bad") and "no candidate is judged" in found.advice
    report = Report((), (), (DeviceReport("cuda:0", fault=found.value, facts=(found,)),))
    assert not report.healthy and report.conclusion().endswith("cuda:0: it cannot judge.")


@pytest.mark.parametrize(("fault", "status"), [("", 0), ("the fork server did not start", 1)])
def test_the_doctor_runs_without_django(monkeypatch, capsys, fault, status) -> None:
    asked = {}

    def examined(devices, **options):
        asked.update(options, devices=list(devices))
        return Report((), (), (DeviceReport("interpreter", fault=fault),))

    monkeypatch.setattr(command, "examine", examined)
    monkeypatch.setattr(command, "device_names", lambda: ["interpreter", "cuda:0"])
    assert command.main(["--json", "--min-sandbox", "rlimits"]) == status
    assert json.loads(capsys.readouterr().out)["healthy"] is (status == 0)
    assert asked == {"devices": ["interpreter", "cuda:0"], "required": frozenset({"rlimits"}), "target": "sm_90"}
    for wrong in (["--device", "cuda:7"], ["--min-sandbox", "landlok"]):
        with pytest.raises(SystemExit) as ended:
            command.main(wrong)
        assert ended.value.code == 2
