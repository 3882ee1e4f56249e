"""The first outcome on a machine is that of a known right kernel: where it fails, no candidate is blamed."""

from __future__ import annotations

from pathlib import Path

import pytest

from judge.bench.foreign.sources import check_source
from judge.bench.probing import known_kernel
from judge.bench.probing.known_kernel import KERNEL, fault_of, prove
from judge.bench.processes.known_problem import KNOWN_RIGHT
from judge.values import JudgeError, Outcome, Verdict

PASSED = Outcome(Verdict.PASS, stage="correctness", loads=True)
CRASHED = Outcome(Verdict.CRASHED, stage="smoke", reason="run.raised", message="no usable temporary directory found")


class FakeBench:
    def __init__(self, outcome: Outcome, device: str = "interpreter", toolchain: str = "torch 2.13") -> None:
        self.device, self.identity, self.outcome, self.toolchain = device, device, outcome, toolchain
        self.sources: list[str] = []

    def facts(self) -> dict[str, str]:
        return {"toolchain": self.toolchain}

    def evaluate(self, job):
        assert not job.timing and job.beat == float("inf")  # neither timed nor audited: this is about the machine
        self.sources.append(job.candidate)
        return self.outcome


def test_it_is_asked_once_where_it_has_passed(tmp_path) -> None:
    record = tmp_path / "artefacts" / "proven.json"
    first, second = FakeBench(PASSED), FakeBench(CRASHED)
    prove(first, record)
    prove(second, record)
    assert first.sources == [KERNEL] and second.sources == []
    prove(FakeBench(Outcome(Verdict.COMPILED_ONLY, stage="compile", reason="compile.only"), "compile:sm_90"), record)


@pytest.mark.parametrize("change", ["toolchain", "device", "account", "temporary folder"])
def test_it_is_asked_again_where_the_machine_is_another(tmp_path, monkeypatch, change) -> None:
    record = tmp_path / "proven.json"
    prove(FakeBench(PASSED), record)
    if change == "account":
        monkeypatch.setattr(known_kernel.os, "geteuid", lambda: 4321)
    if change == "temporary folder":
        monkeypatch.setattr(known_kernel, "temporary_place", lambda: tmp_path)
    toolchain = "torch 2.14" if change == "toolchain" else "torch 2.13"
    bench = FakeBench(PASSED, "cuda:0" if change == "device" else "interpreter", toolchain)
    prove(bench, record)
    assert bench.sources == [KERNEL]


def test_a_machine_where_it_fails_is_told_how_and_what_to_do_and_is_asked_again(tmp_path) -> None:
    record = tmp_path / "proven.json"
    bench = FakeBench(CRASHED)
    for _ in range(2):
        with pytest.raises(JudgeError) as refused:
            prove(bench, record)
    text = str(refused.value)
    assert "crashed run.raised in stage smoke: no usable temporary directory found" in text
    assert "No candidate was judged" in text and "python -m judge.doctor" in text
    assert len(bench.sources) == 2 and not record.exists()


def test_a_torn_record_is_no_proof(tmp_path) -> None:
    (tmp_path / "proven.json").write_text('{"')
    bench = FakeBench(PASSED)
    prove(bench, tmp_path / "proven.json")
    assert bench.sources == [KERNEL]


def test_without_triton_the_known_module_is_plain_torch() -> None:
    bench = FakeBench(PASSED, "cpu")
    assert fault_of(bench) == "" and bench.sources == [KNOWN_RIGHT]
    check_source(KERNEL, needs=("ModelNew",), max_bytes=1 << 16)


@pytest.mark.bench
def test_it_passes_on_the_interpreter(interpreter_bench, tmp_path: Path) -> None:
    assert fault_of(interpreter_bench) == ""
