"""Cases no proposer has seen: a declared one decides, a derived one labels, and neither is ever told."""

from __future__ import annotations

import re

import pytest

from judge.values import Audit, Verdict
from tests.judge.audit_kernels import audited, findings, sealed
from tests.judge.bench_problems import SAME, TRITON, candidate

pytestmark = pytest.mark.bench

SECRET = 4099  # a size that no other text of an outcome holds
WRONG_ELSEWHERE = candidate("y = self.right(x)\nreturn y if x.shape[-1] == 64 else y * 1.5").replace(
    "(self, size)", "(self, size=64)"
)
REFUSES_ELSEWHERE = candidate("assert x.shape[-1] == 64, f'{x.shape} is not what I was made for'\nreturn self.right(x)")
BAKED_IN = TRITON.replace("BLOCK=triton.next_power_of_2(n)", "BLOCK=64")


def sized(source: str) -> str:
    """The candidate with a LayerNorm of the size it is given."""
    return source.replace("layer_norm(x, (64,)", "layer_norm(x, (x.shape[-1],)")


def test_a_candidate_right_for_every_shape_passes(cpu_bench):
    outcome = audited(cpu_bench, SAME, sealed=[sealed(SIZE=SECRET), sealed(SIZE=33, derived=True)])
    assert (outcome.verdict, outcome.audit) == (Verdict.PASS, Audit.PASSED)
    assert next(stage.detail for stage in outcome.stages if stage.name == "audit.sealed") == "2 right"


@pytest.mark.parametrize("source", [WRONG_ELSEWHERE, REFUSES_ELSEWHERE])
def test_a_declared_case_decides(cpu_bench, source):
    outcome = audited(cpu_bench, sized(source), sealed=[sealed(SIZE=SECRET)])
    assert (outcome.verdict, outcome.reason, outcome.audit) == (Verdict.WRONG, "audit.sealed_case", Audit.FAILED)


@pytest.mark.parametrize(
    ("excuse", "verdict"),
    [("MemoryError()", Verdict.WRONG), ("type('Unsupported', (Exception,), {})('nothing')", Verdict.UNSUPPORTED)],
)
def test_an_excuse_for_a_case_of_the_usual_size_does_not_help(cpu_bench, excuse, verdict):
    source = candidate(f"if x.shape[-1] != 64: raise {excuse}\nreturn self.right(x)")
    assert audited(cpu_bench, source, sealed=[sealed(SIZE=65)]).verdict is verdict


def test_a_lack_of_memory_is_no_excuse_where_the_referee_had_enough(cpu_bench):
    source = candidate("if x.shape[-1] > 64: raise MemoryError\nreturn self.right(x)")
    outcome = audited(cpu_bench, source, sealed=[sealed(SIZE=SECRET)])
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "audit.sealed_case")


@pytest.mark.parametrize("source", [WRONG_ELSEWHERE, REFUSES_ELSEWHERE, SAME])
def test_nothing_tells_what_a_sealed_case_is(cpu_bench, source):
    talkative = sized(source).replace("def forward(self, x):", "def forward(self, x):\n        print('size', x.shape)")
    outcome = audited(cpu_bench, talkative, sealed=[sealed(SIZE=SECRET), sealed(SIZE=SECRET, derived=True)])
    assert "size" in outcome.log
    assert not re.search(rf"(?<![\d.]){SECRET}(?![\d.])", str(outcome.to_json()))  # by itself, not in a time's digits
    assert "hidden" not in str(outcome.to_json())


def test_a_derived_case_that_is_refused_labels_the_kernel_guarded(cpu_bench):
    cases = [sealed(SIZE=65, derived=True), sealed(SIZE=64, derived=True)]
    outcome = audited(cpu_bench, REFUSES_ELSEWHERE, sealed=cases)
    assert outcome.audit is Audit.PASSED
    assert "1 of 2" in findings(outcome)["shape.guarded"]
    assert "shape.unsafe" not in findings(outcome)


def test_a_derived_case_answered_wrongly_labels_the_kernel_unsafe(cpu_bench):
    outcome = audited(cpu_bench, sized(WRONG_ELSEWHERE), sealed=[sealed(SIZE=65, derived=True)])
    assert outcome.audit is Audit.PASSED
    assert "1 of 1" in findings(outcome)["shape.unsafe"]


def test_a_block_size_made_for_one_shape_is_found_on_the_interpreter(interpreter_bench):
    outcome = audited(interpreter_bench, BAKED_IN, sealed=[sealed(SIZE=96)])
    assert (outcome.verdict, outcome.reason) == (Verdict.WRONG, "audit.sealed_case")


def test_a_kernel_for_every_size_passes_on_the_interpreter(interpreter_bench):
    outcome = audited(interpreter_bench, TRITON, sealed=[sealed(SIZE=96)])
    assert outcome.audit is Audit.PASSED, outcome


@pytest.mark.parametrize("constants", [{"SIZE": -1}, {"NO_SUCH_CONSTANT": 3}, {"SIZE": "many"}])
def test_a_case_that_the_reference_does_not_take_is_left_out(cpu_bench, constants):
    outcome = audited(cpu_bench, REFUSES_ELSEWHERE, sealed=[sealed(**constants)])
    assert outcome.audit is Audit.PASSED
    assert next(stage.detail for stage in outcome.stages if stage.name == "audit.sealed") == "1 left out"
