"""An error that a CUDA context never recovers from blames no candidate, and ends with its referee."""

from __future__ import annotations

import pytest

from judge.bench.foreign.whereabouts import FORWARD, INPUTS, DeviceLost, Whereabouts
from judge.bench.runner import Bench
from judge.values import JudgeError, ProblemSpec, UnclearFault, Verdict
from tests.judge.bench_problems import PROBLEM, SAME, candidate, judge

ASSERT = "CUDA error: device-side assert triggered"
# The problem runs in the referee's process. On a CPU it plays the device: from then on every wait for it fails.
BREAKS = f"""
import judge.bench.judging.correctness, judge.bench.judging.expected
from judge.bench.device import gpu

def broken(device):
    raise RuntimeError("{ASSERT}\\nCompile with more checks")

def breaks(*values):
    gpu.settle = broken
    broken("")
"""
RETURN = "        return torch.nn"
ZEROS = candidate("return torch.zeros_like(x)")


def problem(*, head: str = BREAKS, forward: str = "") -> str:
    return head + PROBLEM.replace(RETURN, f"        {forward or 'pass'}\n{RETURN}")


class Device:
    """`errors`: what the next waits raise, None for none; the last one stays."""

    def __init__(self, *errors: str | None) -> None:
        self.errors = list(errors)

    def settle(self) -> None:
        error = self.errors.pop(0) if len(self.errors) > 1 else self.errors[0]
        if error:
            raise RuntimeError(error)


def test_an_error_that_stays_is_told_as_such_with_its_place_and_first_line() -> None:
    whereabouts = Whereabouts(settle=Device(None, f"{ASSERT}\nmore").settle)
    with pytest.raises(DeviceLost) as caught, whereabouts.inside(FORWARD):
        raise RuntimeError(f"{ASSERT}\nmore")
    assert str(caught.value) == f"Model.forward broke the GPU's context: {ASSERT}"
    assert whereabouts.device_lost()


def test_an_error_that_shows_only_when_the_device_is_waited_for_belongs_to_the_place() -> None:
    with (
        pytest.raises(DeviceLost, match=r"get_inputs\(\) broke"),
        Whereabouts(settle=Device(None, ASSERT).settle).inside(INPUTS),
    ):
        pass


@pytest.mark.parametrize("device", [Device(None), Device(None, "CUDA error: invalid configuration argument", None)])
def test_an_error_that_the_device_survives_is_the_codes_own(device: Device) -> None:
    whereabouts = Whereabouts(settle=device.settle)
    with pytest.raises(RuntimeError), whereabouts.inside(FORWARD):
        if device.errors == [None]:
            raise RuntimeError("the shapes do not fit")
    assert not whereabouts.device_lost()


def test_what_was_broken_before_is_not_the_places_fault() -> None:
    told: list[object] = []
    with pytest.raises(RuntimeError), Whereabouts(told.append, Device(ASSERT).settle).inside(FORWARD):
        raise AssertionError("never entered")
    assert told == []


@pytest.mark.bench
@pytest.mark.parametrize(
    ("when", "stage"), [("breaks()", "problem"), ("x.abs().max() > 12 and breaks()", "correctness")]
)
def test_a_reference_that_breaks_the_device_is_the_problems_fault(cpu_bench: Bench, when: str, stage: str) -> None:
    outcome = judge(cpu_bench, SAME, problem=problem(forward=when))
    assert (outcome.verdict, outcome.stage, outcome.reason) == (Verdict.REFUSED_PROBLEM, stage, "problem.raises")
    assert f"Model.forward broke the GPU's context: {ASSERT}." in outcome.message and "clamp" in outcome.message
    assert judge(cpu_bench, SAME).verdict is Verdict.PASS


@pytest.mark.bench
def test_a_preflight_refuses_a_reference_that_breaks_the_device(cpu_bench: Bench) -> None:
    report = cpu_bench.admit(ProblemSpec(problem(forward="x.abs().max() > 0 and breaks()")))
    assert (report.state, report.reason) == ("refused", "problem.raises")
    assert ASSERT in report.message and "clamp" in report.stages[-1].fix
    assert cpu_bench.admit(ProblemSpec(PROBLEM)).state == "admitted"


SILENT = (
    "calls, exact = [], judge.bench.judging.correctness.compared\n"
    "def silent(*v):\n"
    "    calls.append(0)\n"
    "    if len(calls) == {call}: gpu.settle = broken\n"
    "    return exact(*v)\n"
    "judge.bench.judging.correctness.compared = silent"
)
LATER = (
    "calls, exact = [], judge.bench.judging.expected.allowed\n"
    "def later(*v, **named):\n"
    "    return breaks() if calls.append(0) or len(calls) > 2 else exact(*v, **named)\n"
    "judge.bench.judging.expected.allowed = later"
)
COMPARES = {
    "as it compares a right answer": (SAME, "judge.bench.judging.correctness.compared = breaks"),
    "as it compares a wrong answer": (ZEROS, "judge.bench.judging.correctness.compared = breaks"),
    "as it makes a later question": (SAME, LATER),
    "silently, before a later question": (SAME, SILENT.format(call=1)),
    "silently, before a pass": (SAME, SILENT.format(call=5)),
    "silently, before a blame": (ZEROS, SILENT.format(call=1)),
}


ENDS = ("as it compares a right answer", "as it compares a wrong answer")  # the process, without a word


@pytest.mark.bench
@pytest.mark.parametrize("when", list(COMPARES))
def test_what_breaks_in_the_comparison_of_one_problem_each_time_is_not_the_devices_fault(
    cpu_bench: Bench, when: str
) -> None:
    source, head = COMPARES[when]
    breaks = problem(head=f"{BREAKS}\n{head}\n")
    if when in ENDS:
        outcome = judge(cpu_bench, source, problem=breaks)
        assert (outcome.verdict, outcome.reason) == (Verdict.REFUSED_PROBLEM, "problem.breaks_off")
        assert "no verdict in stage correctness" in outcome.message
    else:
        with pytest.raises(UnclearFault, match="no verdict in stage correctness"):
            judge(cpu_bench, source, problem=breaks)
    assert judge(cpu_bench, SAME).verdict is Verdict.PASS


@pytest.mark.bench
def test_a_reference_may_refuse_a_family_but_not_for_lack_of_memory(cpu_bench: Bench) -> None:
    refuses = "if x.abs().max() > 40: raise RuntimeError('{}')"
    outcome = judge(cpu_bench, SAME, problem=problem(forward=refuses.format("values must be small")))
    assert outcome.verdict is Verdict.PASS
    assert [case.family for case in outcome.cases if case.detail.startswith("left out")] == ["adversarial"]
    with pytest.raises(JudgeError, match="cannot ask for inputs 'adversarial'"):
        judge(cpu_bench, SAME, problem=problem(forward=refuses.format("CUDA out of memory")))
