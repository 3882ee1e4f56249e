"""Counts of an interpreted candidate are claims: too few bytes, and kernels that the compiler never saw."""

from __future__ import annotations

import pytest

from judge.bench.judging.completion import Ended
from judge.bench.timing.counted import check_compiled
from judge.values import Verdict
from tests.judge.bench_problems import PROBLEM, TRITON, judge
from tests.judge.replies import counted

SEEN = {"c0de": "seen", "c1de": "seen too"}


@pytest.mark.parametrize(
    ("launched", "rows"),
    [
        ({"c0de": "seen", "c2de": "hidden"}, []),  # another kernel
        ({"c2de": "hidden"}, [counted("seen")]),  # another text under a name that was counted
        ({}, [counted("seen"), counted("hidden"), counted("aten::mul", "torch")]),  # counted, and not told of
    ],
)
def test_a_kernel_that_the_compiler_never_saw_is_named_and_is_no_pass(launched, rows):
    endings = {}
    for why in ("", "a value decided which kernel is launched"):
        with pytest.raises(Ended) as caught:
            check_compiled(SEEN, launched, rows, why)
        assert "hidden was interpreted" in caught.value.message and why in caught.value.message
        endings[why] = (caught.value.verdict, caught.value.stage, caught.value.reason)
    assert [*endings.values()] == [
        (Verdict.SUSPECT, "compile", "compile.hidden"),
        (Verdict.UNSUPPORTED, "compile", "compile.incomplete"),
    ]


def test_a_compilation_that_saw_every_kernel_may_be_incomplete():
    check_compiled(
        SEEN, {"c0de": "seen"}, [counted("seen"), counted("aten::mul", "torch")], "forward reads values back"
    )
    check_compiled({}, {}, [], "it raised where kernels are compiled")


FORGED = """
import gc, sys, torch

class ModelNew(torch.nn.Module):
    def __init__(self, size):
        super().__init__()
        self.norm = torch.nn.LayerNorm(size)
        subject = next(o for o in gc.get_objects() if type(o).__name__ == "Subject")
        traffic = sys.modules["judge.bench.interpreting.traffic"]
        sys.modules["judge.bench.subjects.harness"].Harness.touched = lambda self: []
        row = traffic.LaunchTraffic("aten::mul", "torch", None, BYTES, BYTES, BYTES, 1)
        ledger = getattr(getattr(subject.watch, "adapter", None), "ledger", None)
        if ledger is not None:
            told = []
            ledger.add = lambda true: told or told.append(ledger.tell(row)) or told.append(1)

    def forward(self, x):
        return torch.nn.functional.gelu(self.norm(x))
"""


@pytest.mark.bench
@pytest.mark.parametrize(("counted", "verdict"), [(64, Verdict.SUSPECT), (4608, Verdict.SUSPECT), (8800, Verdict.PASS)])
def test_fewer_bytes_than_inputs_and_outputs_are_no_count(interpreter_bench, counted, verdict):
    """16 x 64 floats in and out, and two parameters: 8,704 bytes."""
    outcome = judge(interpreter_bench, FORGED.replace("BYTES", str(counted)), timing=True, beat=float("inf"))
    assert outcome.verdict is verdict, outcome
    assert outcome.reason == ("physics.bytes" if verdict is Verdict.SUSPECT else "")


@pytest.mark.bench
def test_an_honest_kernel_is_counted_as_it_is(interpreter_bench):
    outcome = judge(interpreter_bench, TRITON, problem=PROBLEM, timing=True, beat=float("inf"))
    assert outcome.verdict is Verdict.PASS
    assert outcome.log == "", "what watches the operators says nothing in the candidate's log"
