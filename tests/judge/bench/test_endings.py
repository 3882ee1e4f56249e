"""What each fault of a child means for the verdict: the whole table, since every line of it decides."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from judge.bench.exchange.contact import SubjectFailed
from judge.bench.foreign.sources import LoadError
from judge.bench.foreign.whereabouts import KEEP_IN_RANGE, DeviceLost
from judge.bench.judging.completion import (
    broken_device,
    lower_precision,
    of_baseline,
    of_candidate,
    of_reference,
    of_subject,
)
from judge.bench.processes.children import Child
from judge.values import BASELINES, Verdict

PATH = Path("problem.py")


def failed(
    kind: str, doing: str = "forward", message: str = "its words", reason: str = "", name: str = "candidate"
) -> SubjectFailed:
    return SubjectFailed(name, kind, doing, message, reason)


CANDIDATES = [
    # kind, doing, reason given -> verdict, stage, reason, what the message holds
    ("died", "forward", "", Verdict.CRASHED, "smoke", "run.died", "ModelNew.forward ended the candidate's process"),
    ("died", "load", "", Verdict.CRASHED, "smoke", "load.died", "the import ended the candidate's process"),
    ("died", "construct", "", Verdict.CRASHED, "smoke", "load.died", "ModelNew(...) ended the candidate's process"),
    ("died", "parameters", "", Verdict.CRASHED, "smoke", "load.died", "load_reference_state() or prepare() ended"),
    ("died", "timed", "", Verdict.CRASHED, "smoke", "run.died", "ModelNew.forward ended"),
    ("died", "burst", "", Verdict.CRASHED, "smoke", "run.died", "ModelNew.forward ended"),
    ("died", "burst_ready", "", Verdict.CRASHED, "smoke", "run.died", "ModelNew.forward ended"),
    ("died", "burst_capture", "", Verdict.CRASHED, "smoke", "run.died", "ModelNew.forward ended"),
    ("died", "arena", "", Verdict.CRASHED, "smoke", "load.died", "arena ended the candidate's process"),
    ("too_large", "forward", "", Verdict.REFUSED_PROBLEM, "smoke", "problem.unsupported", "its words"),
    ("garbage", "forward", "", Verdict.DISHONEST, "smoke", "tamper.channel", "broke the protocol: its words"),
    ("touched", "forward", "", Verdict.DISHONEST, "smoke", "tamper.harness", "runs it: its words; leave clocks"),
    ("timeout", "forward", "", Verdict.TIMED_OUT, "smoke", "run.timeout", "forward of the candidate gave its"),
    ("timeout", "load", "", Verdict.TIMED_OUT, "smoke", "load.timeout", "the import of the candidate gave its words"),
    ("oom", "forward", "", Verdict.OUT_OF_MEMORY, "smoke", "run.oom", "its words"),
    ("oom", "construct", "", Verdict.OUT_OF_MEMORY, "smoke", "load.oom", "its words"),
    ("compile", "forward", "", Verdict.COMPILE_FAILED, "compile", "compile.error", "its words"),
    ("compile", "load", "", Verdict.COMPILE_FAILED, "compile", "compile.error", "its words"),
    ("compile", "forward", "compile.timeout", Verdict.COMPILE_FAILED, "compile", "compile.timeout", "its words"),
    ("compile", "forward", "run.odd", Verdict.COMPILE_FAILED, "compile", "compile.error", "its words"),
    ("resources", "forward", "", Verdict.COMPILE_FAILED, "compile", "compile.resources", "its words"),
    ("load", "load", "source.no_model", Verdict.BAD_SOURCE, "smoke", "source.no_model", "its words"),
    ("load", "load", "load.import", Verdict.LOAD_FAILED, "smoke", "load.import", "its words"),
    ("load", "forward", "", Verdict.LOAD_FAILED, "smoke", "load.import", "its words"),
    ("exception", "load", "", Verdict.LOAD_FAILED, "smoke", "load.import", "its words"),
    ("exception", "construct", "", Verdict.LOAD_FAILED, "smoke", "load.construct", "its words"),
    ("exception", "arena", "", Verdict.LOAD_FAILED, "smoke", "load.construct", "its words"),
    ("exception", "parameters", "", Verdict.LOAD_FAILED, "smoke", "load.params", "its words"),
    ("bounds", "forward", "", Verdict.CRASHED, "smoke", "run.out_of_bounds", "its words"),
    ("unsupported", "forward", "", Verdict.UNSUPPORTED, "smoke", "run.unsupported", "its words"),
    ("exception", "forward", "", Verdict.CRASHED, "smoke", "run.exception", "its words"),
    ("anything", "timed", "", Verdict.CRASHED, "smoke", "run.exception", "its words"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "doing", "given", "verdict", "stage", "reason", "words"), CANDIDATES)
def test_a_fault_of_the_candidate(kind, doing, given, verdict, stage, reason, words):
    ended = of_candidate(failed(kind, doing, reason=given, name="candidate#2"), "smoke")
    assert (ended.verdict, ended.stage, ended.reason, ended.subject) == (verdict, stage, reason, "candidate#2")
    assert words in ended.message


@pytest.mark.parametrize(
    ("kind", "reason", "words"),
    [
        ("exception", "problem.raises", "the reference itself failed as a baseline: its words"),
        ("load", "problem.raises", "as a baseline: its words"),
        ("oom", "problem.memory", "the reference found too little memory as a baseline: its words"),
        ("timeout", "problem.timeout", "as a baseline: its words"),
        ("touched", "problem.tampers", "the problem's module replaces parts of the harness that runs it: its words"),
        ("too_large", "problem.unsupported", "its words"),
        ("garbage", "problem.tampers", "the problem's module speaks for the harness that runs it: its words"),
        ("died", "problem.died", "the reference ended its process as the eager#2 baseline"),
        ("compile", "problem.raises", "as a baseline: its words"),
        ("bounds", "problem.raises", "as a baseline: its words"),
    ],
)
def test_every_fault_of_a_baseline_is_the_problems(kind, reason, words):
    ended = of_baseline(failed(kind, name="eager#2"))
    assert (ended.verdict, ended.stage, ended.subject) == (Verdict.REFUSED_PROBLEM, "timing", "eager#2")
    assert ended.reason == reason and ended.message.endswith(words)


def test_whose_fault_it_is_goes_by_the_childs_name():
    for name in BASELINES:
        assert of_subject(failed("exception", name=f"{name}#3"), "timing").reason == "problem.raises"
    gone = failed("exception", name="incumbent#2")
    assert of_subject(gone, "timing") is gone, "nobody's here"
    for name in ("candidate", "candidate#2", "recorder", "audit", "sealed#1"):
        ended = of_subject(failed("exception", name=name), "timing")
        assert (ended.verdict, ended.stage, ended.subject) == (Verdict.CRASHED, "timing", name)


def test_a_fault_of_the_reference_in_the_referee():
    ended = of_reference(ValueError("no such axis"), PATH, "Model.forward")
    assert (ended.verdict, ended.stage, ended.reason) == (Verdict.REFUSED_PROBLEM, "problem", "problem.raises")
    assert ended.message.startswith("the reference raised ") and "no such axis" in ended.message
    short = of_reference(torch.OutOfMemoryError("CUDA out of memory"), PATH, "Model.forward")
    assert short.reason == "problem.memory"
    assert short.message == "the reference: Model.forward needs more memory than this device may use"
    loading = of_reference(LoadError("load.import", "line 3: no module"), PATH, "")
    assert (loading.reason, loading.message) == ("problem.raises", "line 3: no module")


def test_a_reference_that_breaks_its_device_is_the_problems_fault():
    ended = broken_device(DeviceLost("Model.forward", "an illegal access\nand more"), "timing")
    assert (ended.verdict, ended.stage, ended.reason) == (Verdict.REFUSED_PROBLEM, "timing", "problem.raises")
    assert ended.message == f"the reference: Model.forward broke the GPU's context: an illegal access. {KEEP_IN_RANGE}"


@pytest.mark.parametrize(
    ("kind", "reason", "hint"),
    [
        ("tf32", "precision.tf32", "input_precision='ieee'"),
        ("float32", "precision.single", "keep float64 throughout"),
        ("bfloat16", "precision.half", "input_precision='ieee'"),
        ("float16", "precision.half", "input_precision='ieee'"),
    ],
)
def test_a_coarser_format_is_named_with_its_proof_and_a_hint(kind, reason, hint):
    ended = lower_precision(kind, 1.5e-3, 2e-6, near=None, switched=[])
    assert (ended.verdict, ended.stage, ended.reason) == (Verdict.LOWER_PRECISION, "precision", reason)
    assert ended.message.startswith(
        f"right only at {kind} precision: error 1.50e-03 of the output's spread, allowed 2.00e-06; "
        "every output fits the format; "
    )
    assert hint in ended.message
    near = lower_precision(kind, 1.5e-3, 2e-6, near=0.0, switched=["a.tf32", "b"])
    assert "; 0.00e+00 once inputs and parameters are rounded to it; it turned a.tf32, b; " in near.message


@pytest.mark.parametrize(
    ("status", "words"),
    [(9, "killed by SIGKILL"), (35, "killed by signal 35"), (3 << 8, "exited with status 3"), (None, "still running")],
)
def test_a_child_may_end_by_a_signal_that_has_no_name(status, words):
    assert Child.ending(SimpleNamespace(status=status)) == words
